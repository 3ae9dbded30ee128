// Causal attention of 128 queries, 14 heads of 64 that share 2 heads of keys and values.
entry func @attention_grouped_128(%x : f32[1,128,1152] "x") -> ("y") {
  %q0 = slice %x {start=[0,0,0], size=[1,128,896], step=[1,1,1]} : f32[1,128,896]
  %q1 = reshape %q0 {shape=[1,128,14,64]} : f32[1,128,14,64]
  %q2 = transpose %q1 {perm=[0,2,1,3]} : f32[1,14,128,64]
  %k0 = slice %x {start=[0,0,896], size=[1,128,128], step=[1,1,1]} : f32[1,128,128]
  %k1 = reshape %k0 {shape=[1,128,2,64]} : f32[1,128,2,64]
  %k2 = transpose %k1 {perm=[0,2,1,3]} : f32[1,2,128,64]
  %k3 = reshape %k2 {shape=[1,2,1,128,64]} : f32[1,2,1,128,64]
  %k4 = broadcast %k3 {shape=[1,2,7,128,64]} : f32[1,2,7,128,64]
  %k5 = reshape %k4 {shape=[1,14,128,64]} : f32[1,14,128,64]
  %v0 = slice %x {start=[0,0,1024], size=[1,128,128], step=[1,1,1]} : f32[1,128,128]
  %v1 = reshape %v0 {shape=[1,128,2,64]} : f32[1,128,2,64]
  %v2 = transpose %v1 {perm=[0,2,1,3]} : f32[1,2,128,64]
  %v3 = reshape %v2 {shape=[1,2,1,128,64]} : f32[1,2,1,128,64]
  %v4 = broadcast %v3 {shape=[1,2,7,128,64]} : f32[1,2,7,128,64]
  %v5 = reshape %v4 {shape=[1,14,128,64]} : f32[1,14,128,64]
  %a = sdpa %q2, %k5, %v5 {scale=0.125, causal=true, softcap=0.0} : f32[1,14,128,64]
  %t = transpose %a {perm=[0,2,1,3]} : f32[1,128,14,64]
  %y = reshape %t {shape=[1,128,896]} : f32[1,128,896]
  yield %y
}
