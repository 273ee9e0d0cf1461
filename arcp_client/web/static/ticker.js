/** Runs callbacks each second with one timer, and limits how often others run. */

const watching = new Set();
let timer = null;

/** Call `run` about once a second until the returned function is called. */
export function everySecond(run) {
  watching.add(run);
  timer ??= setInterval(() => { for (const each of [...watching]) each(); }, 1000);
  return () => {
    watching.delete(run);
    if (!watching.size) {
      clearInterval(timer);
      timer = null;
    }
  };
}

/**
 * A function that runs `run` in a frame soon, at most once in `every` ms.
 *
 * A thousand events a second are drawn ten times a second, not a thousand times. `next()` runs it in the
 * next frame, however recent the last run is.
 */
export function paced(run, every = 100) {
  let waiting = false;
  let timer = null;                          // of a run that waits for its time
  let stopped = false;
  let last = -Infinity;
  const now = () => {
    waiting = false;
    if (stopped) return;
    last = performance.now();
    run();
  };
  const soon = () => {
    clearTimeout(timer);
    timer = null;
    requestAnimationFrame(now);
  };
  const later = () => {
    if (waiting || stopped) return;
    waiting = true;
    const wait = last + every - performance.now();
    if (wait > 0) timer = setTimeout(soon, wait);
    else soon();
  };
  later.next = () => {
    if (stopped || (waiting && timer === null)) return;
    waiting = true;
    soon();
  };
  later.stop = () => { stopped = true; };
  return later;
}
