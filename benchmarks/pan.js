// Turn the wheel sideways over the timeline in every frame; returns the ms from each to the next.
async ({ frames, pixels }) => {
  const canvas = document.querySelector(".timeline-canvas");
  const nextFrame = () => new Promise((done) => requestAnimationFrame(done));
  const before = location.hash;
  const times = [];
  let last = await nextFrame();
  for (let left = frames; left > 0; left--) {
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: pixels, cancelable: true }));
    const now = await nextFrame();
    times.push(now - last);
    last = now;
  }
  await new Promise((done) => setTimeout(done, 1000)); // the page notes in its address where it is
  if (location.hash === before) throw new Error("the timeline did not move");
  return times;
};
