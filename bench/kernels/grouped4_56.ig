// 3x3 grouped convolution, 4 channels a group, 56 x 56 x 128 -> 128, then relu; channels last in memory, as between layers of a network.
entry func @grouped4_56(%x : f32[1,56,56,128] "x", %w : f32[128,4,3,3] "w", %bias : f32[1,128,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,128,56,56]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=32, flip=false} : f32[1,128,56,56]
  %b = broadcast %bias {shape=[1,128,56,56]} : f32[1,128,56,56]
  %s = add %d, %b : f32[1,128,56,56]
  %r = relu %s : f32[1,128,56,56]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,56,56,128]
  yield %y
}
