// Attention in 64 windows of 49 pixels, 3 heads of 32, with a bias for each pair of pixels.
entry func @attention_window_49(%x : f32[64,49,288] "x", %mask : f32[1,3,49,49] "mask") -> ("y") {
  %q0 = slice %x {start=[0,0,0], size=[64,49,96], step=[1,1,1]} : f32[64,49,96]
  %q1 = reshape %q0 {shape=[64,49,3,32]} : f32[64,49,3,32]
  %q2 = transpose %q1 {perm=[0,2,1,3]} : f32[64,3,49,32]
  %k0 = slice %x {start=[0,0,96], size=[64,49,96], step=[1,1,1]} : f32[64,49,96]
  %k1 = reshape %k0 {shape=[64,49,3,32]} : f32[64,49,3,32]
  %k2 = transpose %k1 {perm=[0,2,1,3]} : f32[64,3,49,32]
  %v0 = slice %x {start=[0,0,192], size=[64,49,96], step=[1,1,1]} : f32[64,49,96]
  %v1 = reshape %v0 {shape=[64,49,3,32]} : f32[64,49,3,32]
  %v2 = transpose %v1 {perm=[0,2,1,3]} : f32[64,3,49,32]
  %a = sdpa %q2, %k2, %v2, %mask {scale=0.17677669529663687, causal=false, softcap=0.0} : f32[64,3,49,32]
  %t = transpose %a {perm=[0,2,1,3]} : f32[64,49,3,32]
  %y = reshape %t {shape=[64,49,96]} : f32[64,49,96]
  yield %y
}
