// Rows of 768.
entry func @softmax_512(%x : f32[512,768] "x") -> ("y") {
  %y = softmax %x {norm=mul, axes=[1]} : f32[512,768]
  yield %y
}
