// Attention of 1500 queries, 6 heads of 64: keys and values of a head leave half of the second-level cache.
entry func @attention_1500(%x : f32[1,1500,1152] "x") -> ("y") {
  %q0 = slice %x {start=[0,0,0], size=[1,1500,384], step=[1,1,1]} : f32[1,1500,384]
  %q1 = reshape %q0 {shape=[1,1500,6,64]} : f32[1,1500,6,64]
  %q2 = transpose %q1 {perm=[0,2,1,3]} : f32[1,6,1500,64]
  %k0 = slice %x {start=[0,0,384], size=[1,1500,384], step=[1,1,1]} : f32[1,1500,384]
  %k1 = reshape %k0 {shape=[1,1500,6,64]} : f32[1,1500,6,64]
  %k2 = transpose %k1 {perm=[0,2,1,3]} : f32[1,6,1500,64]
  %v0 = slice %x {start=[0,0,768], size=[1,1500,384], step=[1,1,1]} : f32[1,1500,384]
  %v1 = reshape %v0 {shape=[1,1500,6,64]} : f32[1,1500,6,64]
  %v2 = transpose %v1 {perm=[0,2,1,3]} : f32[1,6,1500,64]
  %a = sdpa %q2, %k2, %v2 {scale=0.125, causal=false, softcap=0.0} : f32[1,6,1500,64]
  %t = transpose %a {perm=[0,2,1,3]} : f32[1,1500,6,64]
  %y = reshape %t {shape=[1,1500,384]} : f32[1,1500,384]
  yield %y
}
