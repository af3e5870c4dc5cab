// @ts-check
onmessage = async ({ data }) => {
  const found = await Levels.unpack(data);
  const buffers = new Set();
  const collect = (value) => {
    if (ArrayBuffer.isView(value)) buffers.add(value.buffer);
    else if (value && typeof value === "object") Object.values(value).forEach(collect);
  };
  collect(found);
  postMessage(found, { transfer: [...buffers] });
};
