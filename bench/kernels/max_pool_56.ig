// 3x3 stride 2, channels last: 112 x 112 x 64.
entry func @max_pool_56(%x : f32[1,112,112,64] "x") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,64,112,112]
  %p = reduce_window %c {window=[1,1,3,3], stride=[1,1,2,2], pad_lo=[0,0,1,1], pad_hi=[0,0,0,0], dilation=[1,1,1,1], kind=max} : f32[1,64,56,56]
  %y = transpose %p {perm=[0,2,3,1]} : f32[1,56,56,64]
  yield %y
}
