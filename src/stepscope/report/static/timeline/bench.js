// For measuring: the view moved by a program, and how long its frames took.

/** @typedef {import("./timeline.js").Timeline} Timeline */

/** Put `stepscopeTimeline` into the window; the result removes it. @param {Timeline} timeline */
export function expose(timeline) {
  /** @type {number[]} ms from one frame to the next, while something moves */
  const times = [];
  const scope = /** @type {any} */ (window);
  scope.stepscopeTimeline = {
    /** @param {number} pixels */
    pan: (pixels) => timeline.move(() => timeline.view.pan(pixels)),
    /** @param {number} factor */
    zoom: (factor) => timeline.move(() => timeline.view.zoom(factor)),
    /** Pan in every frame. @param {number} frames @param {number} pixels a frame */
    run: (frames, pixels) => run(timeline, times, frames, pixels),
    frameTimes: () => [...times],
  };
  return () => delete scope.stepscopeTimeline;
}

/**
 * @param {Timeline} timeline
 * @param {number[]} times
 * @param {number} frames
 * @param {number} pixels
 * @returns {Promise<void>}
 */
function run(timeline, times, frames, pixels) {
  return new Promise((done) => {
    let last = 0;
    let left = frames;
    /** @param {number} now */
    const frame = (now) => {
      if (last) times.push(now - last);
      last = now;
      if (left-- === 0) done();
      else {
        timeline.move(() => timeline.view.pan(pixels));
        requestAnimationFrame(frame);
      }
    };
    requestAnimationFrame(frame);
  });
}
