// 3x3 convolution, stride 1, padding 1, 7 x 7 x 512 -> 512, then relu; channels last in memory, as between layers of a network.
entry func @conv3x3_7(%x : f32[1,7,7,512] "x", %w : f32[512,512,3,3] "w", %bias : f32[1,512,1,1] "bias") -> ("y") {
  %c = transpose %x {perm=[0,3,1,2]} : f32[1,512,7,7]
  %d = conv %c, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : f32[1,512,7,7]
  %b = broadcast %bias {shape=[1,512,7,7]} : f32[1,512,7,7]
  %s = add %d, %b : f32[1,512,7,7]
  %r = relu %s : f32[1,512,7,7]
  %y = transpose %r {perm=[0,2,3,1]} : f32[1,7,7,512]
  yield %y
}
