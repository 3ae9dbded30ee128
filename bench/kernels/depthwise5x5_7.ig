// Depthwise 5x5 convolution, stride 1, padding 2, 7 x 7 x 960, then relu; channels last in memory.
entry func @depthwise5x5_7(%x : f32[1,7,7,960] "x", %w : f32[960,1,5,5] "w", %bias : f32[1,960,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,960,7,7]
  %d = conv %c, %w {stride=[1,1], pad_lo=[2,2], pad_hi=[2,2], dilation=[1,1], lhs_dilation=[1,1], groups=960, flip=false} : f32[1,960,7,7]
  %b = broadcast %bias {shape=[1,960,7,7]} : f32[1,960,7,7]
  %s = add %d, %b : f32[1,960,7,7]
  %r = relu %s : f32[1,960,7,7]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,7,7,960]
  yield %y
}
