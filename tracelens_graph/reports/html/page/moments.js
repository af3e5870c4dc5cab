// @ts-check
// Moments of devices at which memory was allocated or released: from columns, as points of a picture, as a table.
const Moments = {
  ROWS: 20_000,

  // The devices with the columns of each. A total is the one before, the change, and what else it differs by.
  read(told, columns) {
    let at = 0;
    return told.map(({ title, n, all, reserved }) => {
      const part = (name) => columns[`memory.${name}`].subarray(at, at + n);
      const change = Float64Array.from(part("change"), Planes.signed),
        rest = part("rest"),
        allocated = new Float64Array(n);
      let sum = 0,
        peak = 0;
      for (let i = 0; i < n; i++) {
        allocated[i] = sum += change[i] + Planes.signed(rest[i]);
        if (allocated[i] > allocated[peak]) peak = i;
      }
      const made = {
        title,
        all,
        peak,
        change,
        allocated,
        time: part("time"),
        reserved: reserved ? part("reserved") : null,
        call: part("call"),
      };
      made.most = Math.max(allocated[peak], reserved ? made.reserved.reduce((a, b) => Math.max(a, b), 0) : 0, 1);
      made.lowest = allocated.reduce((a, b) => Math.min(a, b), Infinity);
      made.least = Math.min(made.lowest, 0);
      at += n;
      return made;
    });
  },

  // Position of the last moment of a device that is not behind a time; -1 where all are.
  before(device, time) {
    let low = 0,
      high = device.time.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (device.time[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  },

  // What is drawn between two moments: where several are in one pixel, the ends, extremes and the most reserved of it.
  points(device, from, to, width, end) {
    const { time, allocated, reserved } = device,
      found = [[], [], []];
    const push = (i, x) => {
      found[0].push(x);
      found[1].push(allocated[i]);
      found[2].push(reserved ? reserved[i] : null);
    };
    const before = Moments.before(device, from),
      last = Moments.before(device, to);
    if (last < 0) return found;
    if (before >= 0) push(before, from);
    const cell = (to - from) / width;
    for (let i = before + 1; i <= last;) {
      const place = Math.floor((time[i] - from) / cell);
      const kept = [i, i, i, i];
      let next = i;
      for (; next <= last && Math.floor((time[next] - from) / cell) === place; next++) {
        if (allocated[next] > allocated[kept[1]]) kept[1] = next;
        if (allocated[next] < allocated[kept[2]]) kept[2] = next;
        if (reserved && reserved[next] > reserved[kept[3]]) kept[3] = next;
      }
      kept.push(next - 1);
      for (const one of [...new Set(kept)].sort((a, b) => a - b)) push(one, time[one]);
      i = next;
    }
    push(last, Math.max(Math.min(to, end), time[last]));
    return found;
  },

  // Labels of the axis, all in one unit.
  labels(splits) {
    const most = splits[splits.length - 1],
      step = splits.length > 1 ? splits[1] - splits[0] : most;
    // Halves and quarters are told in the unit of the greatest, finer steps in their own.
    const isFine = step < 1024 ** Show.power(most) / 4,
      share = step / 1024 ** Show.power(most);
    const digits = isFine || share >= 1 ? 0 : share === 0.5 ? 1 : 2;
    return splits.map((value) => (value || most < 1024 ? Show.bytesAs(value, isFine ? step : most, digits) : "0"));
  },

  // Who made a change: the op, the module, as [class, text].
  caller(trace, device, i) {
    const e = device.call[i] - 1;
    if (e < 0) return [["dim", "in no call that was recorded"]];
    const around = [...trace.above(e), e],
      op = around.findLast((one) => trace.className(one) === "op");
    const modules = around.filter((one) => trace.className(one) === "module").map((one) => trace.short(one));
    return [
      ["", `in ${trace.text(op ?? e)}`],
      ...(modules.length ? [["dim", Show.cut(modules.join(" › "), 200)]] : []),
      ["dim", `uid ${trace.uid[e]}`],
    ];
  },

  // The moments in view of a memory view, as a table. The largest changes where they are many.
  table(memory) {
    const { view, trace, devices } = memory,
      { from, to } = view;
    let found = [],
      all = 0;
    devices.forEach((device, d) => {
      const low = Moments.before(device, from) + 1,
        high = Moments.before(device, to);
      for (let i = low; i <= high; i++) found.push([d, i]);
      if (device.all > device.time.length) all++;
    });
    const count = found.length,
      change = ([d, i]) => Math.abs(devices[d].change[i]);
    if (count > Moments.ROWS) found = found.sort((a, b) => change(b) - change(a)).slice(0, Moments.ROWS);
    const time = ([d, i]) => devices[d].time[i];
    found.sort((a, b) => time(a) - time(b));
    const cells = (read) => found.map(([d, i]) => read(devices[d], i));
    const call = (device, i) => device.call[i] - 1;
    const bytes = (heading, read) => ({ heading, unit: "bytes", kind: "number", digits: 0, cells: cells(read) });
    return {
      columns: [
        {
          heading: "moment",
          unit: "ms",
          kind: "number",
          digits: 6,
          cells: found.map((one) => (time(one) + trace.body.lead_ns) / 1e6),
        },
        ...(devices.length > 1 ? [{ heading: "device", kind: "text", cells: cells((device) => device.title) }] : []),
        bytes("change", (device, i) => device.change[i]),
        bytes("allocated", (device, i) => device.allocated[i]),
        ...(devices.some((one) => one.reserved)
          ? [bytes("reserved", (device, i) => (device.reserved ? device.reserved[i] : null))]
          : []),
        {
          heading: "in",
          kind: "text",
          cells: cells((device, i) => (call(device, i) >= 0 ? trace.text(call(device, i)) : "")),
        },
        {
          heading: "uid",
          kind: "uid",
          cells: cells((device, i) => (call(device, i) >= 0 ? trace.uid[call(device, i)] : null)),
        },
      ],
      rows: found.length,
      notes: [
        ...(count > found.length
          ? [`the ${Show.count(found.length)} largest changes of ${Show.count(count)} in view`]
          : []),
        ...(all
          ? ["Of many neighbouring moments those stay that show the shape: ends, extremes, the largest change."]
          : []),
      ],
      click: (row) => memory.follow(devices[found[row][0]], found[row][1], time(found[row])),
    };
  },
};
