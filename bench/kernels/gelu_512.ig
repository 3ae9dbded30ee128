// Elementwise, by erf.
entry func @gelu_512(%x : f32[512,768] "x") -> ("y") {
  %y = gelu %x {approx="none"} : f32[512,768]
  yield %y
}
