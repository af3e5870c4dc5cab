// @ts-check
// Unpacks beside the page.
import { unpackedEvents } from "./levels.js";

onmessage = async ({ data }) => {
  const found = await unpackedEvents(data);
  /** @type {Set<ArrayBuffer>} */
  const buffers = new Set();
  /** @param {unknown} value */
  const collect = (value) => {
    if (ArrayBuffer.isView(value)) buffers.add(/** @type {ArrayBuffer} */ (value.buffer));
    else if (value && typeof value === "object") Object.values(value).forEach(collect);
  };
  collect(found);
  postMessage(found, { transfer: [...buffers] });
};
