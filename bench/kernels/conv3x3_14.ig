// 3x3 convolution, stride 1, padding 1, 14 x 14 x 256 -> 256, then relu; channels last in memory, as between layers of a network.
entry func @conv3x3_14(%x : f32[1,14,14,256] "x", %w : f32[256,256,3,3] "w", %bias : f32[1,256,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,256,14,14]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : f32[1,256,14,14]
  %b = broadcast %bias {shape=[1,256,14,14]} : f32[1,256,14,14]
  %s = add %d, %b : f32[1,256,14,14]
  %r = relu %s : f32[1,256,14,14]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,14,14,256]
  yield %y
}
