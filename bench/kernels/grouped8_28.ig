// 3x3 grouped convolution, 8 channels a group, 28 x 28 x 256 -> 256, then relu; channels last in memory, as between layers of a network.
entry func @grouped8_28(%x : f32[1,28,28,256] "x", %w : f32[256,8,3,3] "w", %bias : f32[1,256,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,256,28,28]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=32, flip=false} : f32[1,256,28,28]
  %b = broadcast %bias {shape=[1,256,28,28]} : f32[1,256,28,28]
  %s = add %d, %b : f32[1,256,28,28]
  %r = relu %s : f32[1,256,28,28]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,28,28,256]
  yield %y
}
