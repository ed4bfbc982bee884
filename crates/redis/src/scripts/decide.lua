-- Decides one batch of charges on the counters KEYS, all or nothing, as hivemind-core's
-- algorithms and its `store/batch.rs` do: a change of one needs the same change of the other,
-- and the conformance suite compares them. See docs/decisions/011.
--
-- Lua's numbers are doubles, whole up to 2^53, and times are nanoseconds in 63 bits. So a time
-- is three limbs of 21 bits, highest first, and is only ever multiplied by what has 32 bits: a
-- product of a limb stays whole, and every result is exact.
--
-- A state is 17 bytes: three limbs of 3 bytes (when a bucket last earned; when a window began),
-- then two numbers of 4 bytes (tokens and phase; a count, high and low; the last window's count
-- and this one's).
--
-- The answer: a byte for whether the batch commits, the moment it was decided at, and for each
-- key a byte for whether it was there and the state that was found.

local LIMB, HALF, STEP_BACK = 2097152, 4294967296, 60000000000
-- The operations of a charge, and other requests: to give units back, to lease a slice of what
-- is left, to count hits that were refused without a call, and to count a refusal.
local SPEND, PEEK, REFUND, DEBIT, UNDO, LEASE, OWED, COUNT = 0, 1, 2, 3, 4, 5, 6, 7
local ENFORCE, QUOTA = 0, 2
local COUNT_ALL, COUNT_NONE = 1, 2
local call, unpack, pack = redis.call, struct.unpack, struct.pack
local floor, fmod, min, max = math.floor, math.fmod, math.min, math.max

local flags, on_refusal, grace, n2, n1, n0, place = unpack('>BBI4I3I3I3', ARGV[1])

-- a * x - b * y - c, where a, b and c have 32 bits; the highest limb bears the sign.
local function difference(a, x2, x1, x0, b, y2, y1, y0, c)
  local d0 = a * x0 - b * y0 - c
  local carried = floor(d0 / LIMB)
  local d1 = a * x1 - b * y1 + carried
  local carried_on = floor(d1 / LIMB)
  return a * x2 - b * y2 + carried_on, d1 - carried_on * LIMB, d0 - carried * LIMB
end

-- About as much, as one number: exact up to 2^53, and in the right order beyond.
local function whole(x2, x1, x0)
  return (x2 * LIMB + x1) * LIMB + x0
end

-- The quotient of (a * x - c) and y, which has 32 bits, and the rest. The first guess is off by
-- one at most; the loop is bounded in case another program wrote the state.
local function divided(a, x2, x1, x0, c, y2, y1, y0)
  local q = floor((a * whole(x2, x1, x0) - c) / whole(y2, y1, y0))
  local r2, r1, r0
  for _ = 1, 4 do
    r2, r1, r0 = difference(a, x2, x1, x0, q, y2, y1, y0, c)
    if r2 < 0 then
      q = q - 1
    elseif r2 > y2 or r2 == y2 and (r1 > y1 or r1 == y1 and r0 >= y0) then
      q = q + 1
    else
      break
    end
  end
  return q, r2, r1, r0
end

if flags % 2 == 0 then
  local time = call('TIME')
  -- A second has 476 * 2^21 + 1755648 nanoseconds.
  n2, n1, n0 = difference(tonumber(time[1]), 0, 476, 1755648, 0, 0, 0, 0, -1000 * tonumber(time[2]))
end

-- What a bucket becomes: its state, and whether the charge fits.
local function bucket(c, s, action)
  local capacity, earned, cost = c.amount, c.earned, c.cost
  local tokens, phase, s2, s1, s0, ahead = capacity, 0, n2, n1, n0, false
  local held = s and s[4] or capacity
  -- The latest moment that the bucket knows of, for what was taken earlier.
  local l2, l1, l0 = n2, n1, n0
  if held >= 2147483648 then held = held - HALF end
  if held < capacity then
    tokens, phase, s2, s1, s0 = max(held, -capacity), min(s[5], earned - 1), s[1], s[2], s[3]
    local e2, e1, e0 = difference(1, n2, n1, n0, 1, s2, s1, s0, 0)
    if e2 < 0 then
      l2, l1, l0 = s2, s1, s0
      ahead = -whole(e2, e1, e0) <= STEP_BACK
      if not ahead then s2, s1, s0, phase = n2, n1, n0, 0 end
    elseif difference(earned, e2, e1, e0, capacity - tokens, c.p2, c.p1, c.p0, phase) >= 0 then
      tokens, phase, s2, s1, s0 = capacity, 0, n2, n1, n0
    else
      local q, r2, r1, r0 = divided(earned, e2, e1, e0, phase, c.p2, c.p1, c.p0)
      if q > 0 then
        tokens = tokens + q
        -- The last whole token was earned rest / earned nanoseconds ago, rounded up.
        local m2 = fmod(r2, earned)
        local d1 = m2 * LIMB + r1
        local m1 = fmod(d1, earned)
        local d0 = m1 * LIMB + r0
        local m0 = fmod(d0, earned)
        local up = m0 > 0 and 1 or 0
        phase = up * (earned - m0)
        s2, s1, s0 = difference(1, n2, n1, n0, 1, (r2 - m2) / earned, (d1 - m1) / earned, (d0 - m0) / earned, up)
      end
    end
  end
  local fits = action == REFUND or action >= UNDO or tokens >= cost
  if action == SPEND and fits or action == DEBIT then
    tokens = tokens - cost
    if tokens < -capacity then
      tokens, phase = -capacity, 0
      if not ahead then s2, s1, s0 = n2, n1, n0 end
    end
  elseif action == REFUND then
    tokens = min(capacity, tokens + cost)
  elseif action == UNDO then
    -- What was taken is lost if the bucket can have been full since: it would have been cut off there,
    -- and comes on top of a whole burst here.
    local t2, t1, t0 = difference(1, l2, l1, l0, 1, c.w2, c.w1, c.w0, 0)
    if t2 < 0 or difference(earned, t2, t1, t0, capacity - c.level, c.p2, c.p1, c.p0, 0) >= 0 then return s, true end
    tokens = min(capacity, tokens + cost)
  end
  return { s2, s1, s0, tokens, phase }, fits
end

-- When the window of now began, in limbs.
local function began(c)
  local r2, r1, r0 = 0, 0, 0
  if c.p2 == 0 and c.p1 < 2048 then
    local period = c.p1 * LIMB + c.p0 -- It has 32 bits, so this is exact at each limb.
    local rest = fmod(fmod(fmod(n2, period) * LIMB + n1, period) * LIMB + n0, period)
    r1 = floor(rest / LIMB)
    r0 = rest - r1 * LIMB
  else
    local _
    _, r2, r1, r0 = divided(1, n2, n1, n0, 0, c.p2, c.p1, c.p0)
  end
  return difference(1, n2, n1, n0, 1, r2, r1, r0, 0)
end

-- The window that a counter is in, and whether its state is of that window, or of the last one.
local function window_of(c, s)
  local w2, w1, w0 = began(c)
  if not s then return w2, w1, w0, false, false end
  local b2, b1, b0 = difference(1, w2, w1, w0, 1, s[1], s[2], s[3], 0)
  if b2 >= 0 and (b2 > 0 or b1 > 0 or b0 > 0) then
    return w2, w1, w0, false, b2 == c.p2 and b1 == c.p1 and b0 == c.p0
  end
  -- A clock that stepped back a little leaves it where it is; one that was set takes it along.
  local a2, a1, a0 = difference(1, s[1], s[2], s[3], 1, n2, n1, n0, 0)
  if whole(a2, a1, a0) <= STEP_BACK then w2, w1, w0 = s[1], s[2], s[3] end
  return w2, w1, w0, true, false
end

local function began_at(c, w2, w1, w0)
  return c.w2 == w2 and c.w1 == w1 and c.w0 == w0
end

local function fixed_window(c, s, action)
  local w2, w1, w0, current = window_of(c, s)
  -- What is of another window, or of a counter that was deleted, leaves this one as it was.
  if (action == OWED or action == UNDO) and not (current and began_at(c, w2, w1, w0)) then return s, true end
  local high, low = 0, 0
  if current then high, low = s[4], s[5] end
  local room = high == 0 and max(0, c.amount - low) or 0
  local fits = action == REFUND or action >= UNDO or high == 0 and low + c.cost <= c.amount
  local cost_high, cost_low = c.high, c.low
  if action == LEASE then cost_high, cost_low = 0, min(c.cost, floor(room / 4)) end
  if action == REFUND or action == UNDO then
    high, low = high - cost_high, low - cost_low
    if low < 0 then high, low = high - 1, low + HALF end
    if high < 0 then high, low = 0, 0 end
  elseif action >= DEBIT or action == SPEND and (fits or c.counts) then
    high, low = high + cost_high, low + cost_low
    if low >= HALF then high, low = high + 1, low - HALF end
    if high >= HALF then high, low = HALF - 1, HALF - 1 end
  end
  return { w2, w1, w0, high, low }, fits
end

local function sliding_window(c, s, action)
  local w2, w1, w0, is_current, is_last = window_of(c, s)
  local last, current, carried = 0, 0, 0
  if is_current then last, current = s[4], s[5] elseif is_last then last = s[5] end
  if last > 0 and current >= c.amount then
    carried = 1
  elseif last > 0 then
    -- What a window that ends now still covers of the last one, rounded up.
    local c2, c1, c0 = c.p2, c.p1, c.p0
    local i2, i1, i0 = difference(1, n2, n1, n0, 1, w2, w1, w0, 0)
    if i2 >= 0 then c2, c1, c0 = difference(1, c2, c1, c0, 1, i2, i1, i0, 0) end
    local q, r2, r1, r0 = divided(last, c2, c1, c0, 0, c.p2, c.p1, c.p0)
    carried = (r2 > 0 or r1 > 0 or r0 > 0) and q + 1 or q
  end
  local cost = min(c.cost, HALF - 1)
  local fits = action == REFUND or action >= UNDO or current + carried + c.cost <= c.amount
  if action == SPEND and fits or action == DEBIT then
    current = min(current + cost, HALF - 1)
  elseif action == LEASE then
    current = current + min(cost, floor(max(0, c.amount - current - carried) / 4))
  elseif action == SPEND and c.counts or action == COUNT then
    -- Counts no further than one past the limit.
    if current <= c.amount then
      current = min(current + min(cost, max(0, c.amount + 1 - current - carried)), HALF - 1)
    end
  elseif action == REFUND then
    last, current = max(0, last - max(0, cost - current)), max(0, current - cost)
  elseif action == UNDO then
    if began_at(c, w2, w1, w0) then
      current = max(0, current - cost)
    elseif began_at(c, difference(1, w2, w1, w0, 1, c.p2, c.p1, c.p0, 0)) then
      last = max(0, last - cost)
    else
      return s, true
    end
  end
  return { w2, w1, w0, last, current }, fits
end

local charges = {}
local text = ARGV[1]
while place <= #text do
  local kind, op, mode, key, group, amount, earned, p2, p1, p0, high, low, next_place =
    unpack('>BBBI2I2I4I4I3I3I3I4I4', text, place)
  local w2, w1, w0, level
  if op == UNDO then
    w2, w1, w0, level, next_place = unpack('>I3I3I3i4', text, next_place)
  elseif op == OWED then
    w2, w1, w0, next_place = unpack('>I3I3I3', text, next_place)
  end
  place = next_place
  local cost = high * HALF + low
  -- A cost above the limit can never pass: counting it would only keep out requests that can.
  local counts = on_refusal == COUNT_ALL or on_refusal ~= COUNT_NONE and cost <= amount
  -- All fields at once: a table that grows field by field costs several times as much.
  charges[#charges + 1] = {
    step = kind == 0 and bucket or kind == 1 and fixed_window or sliding_window,
    is_bucket = kind == 0, op = op, mode = mode, key = key, group = group, amount = amount, earned = earned,
    p2 = p2, p1 = p1, p0 = p0, high = high, low = low, cost = cost, counts = counts,
    w2 = w2, w1 = w1, w0 = w0, level = level, tried = false, fits = false, chained = false,
  }
end

local found, kept = {}, {}
for i = 1, #KEYS do
  local state = call('GET', KEYS[i])
  if state and #state == 17 then
    found[i], kept[i] = state, { unpack('>I3I3I3I4I4', state) }
  end
end

-- Each charge is tried on what the earlier ones of the batch would leave.
local tried, refused, quotas, quotas_refused, last_group, last_refused = {}, false, 0, 0, -1, false
for i = 1, #charges do
  local c = charges[i]
  c.chained = tried[c.key] ~= nil
  c.tried, c.fits = c.step(c, tried[c.key] or kept[c.key], c.op)
  if c.op ~= PEEK and c.tried then tried[c.key] = c.tried end
  local refuses = not c.fits and c.op ~= DEBIT
  if c.mode == ENFORCE then
    refused = refused or refuses
  elseif c.mode == QUOTA then
    if c.group ~= last_group then
      quotas, last_group, last_refused = quotas + 1, c.group, false
    end
    if refuses and not last_refused then
      quotas_refused, last_refused = quotas_refused + 1, true
    end
  end
end
-- Where the batch goes on in another slot, its charges are taken as far as each fits, and given back from there.
local committed = flags >= 2 or not refused and (quotas == 0 or quotas_refused < quotas)

local changed = {}
for i = 1, #charges do
  local c = charges[i]
  if committed then
    if c.op ~= PEEK and c.tried then kept[c.key], changed[c.key] = c.tried, c end
  else
    local action = PEEK
    if c.op == REFUND or c.op == DEBIT or c.op == UNDO or c.op == OWED then
      action = c.op
    elseif c.op == SPEND and (on_refusal == COUNT_ALL or c.counts and not c.fits) then
      action = COUNT
    end
    if action ~= PEEK then
      local after = c.tried
      if c.chained or c.op == SPEND and c.fits then after = c.step(c, kept[c.key], action) end
      if after then kept[c.key], changed[c.key] = after, c end
    end
  end
end

for i = 1, #charges do
  -- A bucket that stays as it is may have got its time to live from a faster limit.
  local c = charges[i]
  if c.is_bucket and c.op ~= PEEK and kept[c.key] then changed[c.key] = c end
end
for key, c in pairs(changed) do
  local s = kept[key]
  local state = pack('>I3I3I3I4I4', s[1], s[2], s[3], s[4], s[5])
  local millis = whole(c.p2, c.p1, c.p0) / 1000000
  local lives = 2 * millis
  if c.is_bucket then
    local held = s[4] >= 2147483648 and s[4] - HALF or s[4]
    lives = max(0, c.amount - held) * millis / c.earned
  end
  lives = min(math.ceil(lives) + 1 + grace, 4e15)
  if state ~= found[key] or c.is_bucket and call('PTTL', KEYS[key]) < lives - grace then
    call('SET', KEYS[key], state, 'PX', lives)
  end
end

local answer = pack('>BI3I3I3', committed and 1 or 0, n2, n1, n0)
for i = 1, #KEYS do
  answer = found[i] and answer .. '\1' .. found[i] or answer .. '\0'
end
return answer
