// Depthwise 3x3 convolution, stride 1, padding 1, 14 x 14 x 480, then relu; channels last in memory.
entry func @depthwise3x3_14(%x : f32[1,14,14,480] "x", %w : f32[480,1,3,3] "w", %bias : f32[1,480,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,480,14,14]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=480, flip=false} : f32[1,480,14,14]
  %b = broadcast %bias {shape=[1,480,14,14]} : f32[1,480,14,14]
  %s = add %d, %b : f32[1,480,14,14]
  %r = relu %s : f32[1,480,14,14]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,14,14,480]
  yield %y
}
