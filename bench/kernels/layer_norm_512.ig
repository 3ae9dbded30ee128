// Rows of 768.
entry func @layer_norm_512(%x : f32[512,768] "x", %g : f32[1,768] "g", %b : f32[1,768] "b") -> ("y") {
  %y = layer_norm %x, %g, %b {axes=[1], epsilon=1e-05} : f32[512,768]
  yield %y
}
