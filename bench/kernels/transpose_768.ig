entry func @transpose_768(%x : f32[768,768] "x") -> ("y") {
  %y = transpose %x {perm=[1,0]} : f32[768,768]
  yield %y
}
