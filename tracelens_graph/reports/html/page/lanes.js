// @ts-check
// Where lanes stand: regions one below the other, of which the GPU's is always seen.
class Lanes {
  static ROW = 16;
  static LOW = 3;
  static GAP = 6;
  static DEEP = 30;
  // Lanes of launches that stand with the GPU: those of the threads that launch most.
  static NEAR = 2;

  constructor(trace) {
    this.trace = trace;
    const busy = (lane) => (lane.launches ? 1e12 : 0) + lane.thread;
    const of = (...groups) => trace.lanes.filter((lane) => lane.n && groups.includes(lane.group));
    const near = of("call")
      .filter((lane) => lane.launches > 0)
      .sort((a, b) => b.launches - a.launches)
      .slice(0, Lanes.NEAR);
    const launches = (lane) => near.includes(lane);
    const host = of("host", "call")
      .filter((lane) => !launches(lane))
      .sort((a, b) => busy(b) - busy(a) || (a.group < b.group ? 1 : -1));
    host.forEach((lane, k) => (lane.isLow = k > 3 && lane.deep > 1));
    this.regions = [
      { name: "top", lanes: of("note"), share: 0.25, scroll: 0 },
      { name: "host", lanes: host, share: 1, scroll: 0 },
      { name: "gpu", lanes: [...near, ...of("gpu"), ...of("idle")], share: 0.45, scroll: 0 },
    ];
    this.regions[0].lanes.forEach((lane, k) => (lane.name = k ? `annotations, ${lane.title}` : "steps, annotations"));
    const order = ["call", "gpu", "idle"];
    const device = (lane) => Number(/^GPU (\d+)/.exec(lane.title)?.[1] ?? 0);
    this.regions[2].lanes.sort(
      (a, b) => order.indexOf(a.group) - order.indexOf(b.group) || device(a) - device(b) || b.n - a.n,
    );
  }

  // Lay lanes out in a height, below the axis.
  place(top, height) {
    for (const region of this.regions) {
      let y = region.lanes.length ? Lanes.GAP / 2 : 0;
      for (const lane of region.lanes) {
        lane.y = y;
        lane.row = lane.isLow ? Lanes.LOW : Lanes.ROW;
        lane.height = lane.deep * lane.row;
        if (lane.isLow) lane.height = Math.max(lane.height, Lanes.ROW);
        y += lane.height + Lanes.GAP;
      }
      region.total = y;
    }
    const [notes, host, gpu] = this.regions,
      room = height - top;
    notes.height = Math.min(notes.total, notes.share * room);
    gpu.height = Math.min(gpu.total, host.lanes.length ? gpu.share * room : room - notes.height);
    host.height = Math.max(room - notes.height - gpu.height, 0);
    notes.y = top;
    host.y = top + notes.height;
    gpu.y = height - gpu.height;
    if (host.total < host.height) gpu.y = host.y + Math.max(host.total, 0);
    if (host.total < host.height) host.height = host.total;
    for (const region of this.regions) this.scrollTo(region, region.scroll);
  }

  // Where the last lane ends: below it is nothing.
  get bottom() {
    const last = this.regions[2];
    return last.y + last.height;
  }

  scrollTo(region, scroll) {
    region.scroll = Math.max(0, Math.min(scroll, region.total - region.height));
  }

  regionAt(y) {
    return this.regions.find((region) => y >= region.y && y < region.y + region.height);
  }

  // Top of a lane within the picture.
  topOf(region, lane) {
    return region.y + lane.y - region.scroll;
  }

  // The track at a height: with its lane; null between lanes.
  trackAt(y) {
    const region = this.regionAt(y);
    if (!region) return null;
    for (const lane of region.lanes) {
      const level = Math.floor((y - this.topOf(region, lane)) / lane.row);
      if (level >= 0 && level < lane.deep) return { lane, track: lane.track + level };
    }
    return null;
  }

  // Region and top of the row of an event.
  placeOf(e) {
    const lane = this.trace.laneOf(e);
    const region = this.regions.find((one) => one.lanes.includes(lane));
    return region ? { region, lane, y: this.topOf(region, lane) + this.trace.level[e] * lane.row } : null;
  }

  reveal(e) {
    const place = this.placeOf(e);
    if (!place) return;
    if (place.lane.isLow) return;
    const { region, y } = place;
    if (y < region.y || y + Lanes.ROW > region.y + region.height) {
      this.scrollTo(region, region.scroll + y - region.y - region.height / 2);
    }
  }
}
