-- Requests for wrk: orders of the crowd's buyers in turn, each with a new idempotency
-- key. wrk.go runs this script.
--
-- Arguments, after "--" on wrk's command line:
--   1 file with one token per line  2 number of threads of wrk
--   3 prefix of the keys            4 prefix of the SKUs  5 number of SKUs
--   6 one more header line, or ''
-- Prints at the end: totals duration_us requests connect status
-- connect counts failed connections, status counts answers with 400 or above.

local threads = 0

function setup(thread) -- runs in the main thread before the load starts
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  local of, extra = tonumber(args[2]), args[6]
  heads, tails, count = {}, {}, 0
  local line = 0
  for token in io.lines(args[1]) do
    if line % of == number then -- threads have different buyers
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

function request() -- must be cheap, because it uses the cores that are measured
  count = count + 1
  return heads[count % #heads + 1] .. (10000000 + count) .. tails[count % #tails + 1]
end

function done(summary)
  io.write(string.format("totals %d %d %d %d\n", summary.duration, summary.requests,
    summary.errors.connect, summary.errors.status))
end
