-- KEYS: 1 label (string)
-- ARGV: 1 text, 2 life; or none
-- returns 1
-- text: what the program says about its hold; without it the label is removed. life: how long the label is kept, in ms.
if ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
