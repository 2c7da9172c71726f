-- wrk's requests: orders of the crowd's buyers in turn, each under an
-- idempotency key that was never used before. See wrk.go.
--
-- Arguments, after "--" on wrk's command line:
--   1 file of tokens, a line each   2 how many threads wrk has
--   3 prefix of the keys            4 prefix of the SKUs  5 how many SKUs
--   6 a header line more, or ''
-- Prints at the end: totals duration_us requests connect status
-- where connect counts connections that failed, and status the answers from 400 on.

local threads = 0

function setup(thread) -- in the main thread, before the others run
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  local of, extra = tonumber(args[2]), args[6]
  heads, tails, count = {}, {}, 0
  local line = 0
  for token in io.lines(args[1]) do
    if line % of == number then -- each thread has buyers of its own
      heads[#heads + 1] = "POST /v1/orders HTTP/1.1\r\nHost: " .. wrk.headers["Host"] ..
        "\r\nAuthorization: Bearer " .. token .. "\r\nContent-Type: application/json\r\n" ..
        (extra ~= "" and extra .. "\r\n" or "") .. "Idempotency-Key: " .. args[3] .. "-" .. number .. "-"
    end
    line = line + 1
  end
  for i = 0, tonumber(args[5]) - 1 do
    local body = string.format('{"sku":"%s-%03d","quantity":1}', args[4], i)
    tails[#tails + 1] = "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  end
end

function request() -- as little as possible: it runs on the cores that are measured
  count = count + 1
  return heads[count % #heads + 1] .. (10000000 + count) .. tails[count % #tails + 1]
end

function done(summary)
  io.write(string.format("totals %d %d %d %d\n", summary.duration, summary.requests,
    summary.errors.connect, summary.errors.status))
end
