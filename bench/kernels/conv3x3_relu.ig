// 3x3 convolution, stride 1, padding 1, 56 x 56 x 64 -> 64, then relu; channels last in memory, as between layers of a network.
entry func @conv3x3_relu(%x : f32[1,56,56,64] "x", %w : f32[64,64,3,3] "w", %bias : f32[1,64,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,64,56,56]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : f32[1,64,56,56]
  %b = broadcast %bias {shape=[1,64,56,56]} : f32[1,64,56,56]
  %s = add %d, %b : f32[1,64,56,56]
  %r = relu %s : f32[1,64,56,56]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,56,56,64]
  yield %y
}
