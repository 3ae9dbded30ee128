// Depthwise 5x5 convolution, dilation 2, stride 1, padding 4, 20 x 20 x 672, then relu; channels last in memory.
entry func @depthwise5x5_dilated_20(%x : f32[1,20,20,672] "x", %w : f32[672,1,5,5] "w", %bias : f32[1,672,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,672,20,20]
  %d = conv %c, %w {stride=[1,1], pad_lo=[4,4], pad_hi=[4,4], dilation=[2,2], lhs_dilation=[1,1], groups=672, flip=false} : f32[1,672,20,20]
  %b = broadcast %bias {shape=[1,672,20,20]} : f32[1,672,20,20]
  %s = add %d, %b : f32[1,672,20,20]
  %r = relu %s : f32[1,672,20,20]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,20,20,672]
  yield %y
}
