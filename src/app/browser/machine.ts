/**
 * Facts that may explain why this machine is slow: whether it runs on its battery, and the pace of
 * the page's frames.
 */
import { signal, type ReadonlySignal } from '@preact/signals';

/** The needed part of https://www.w3.org/TR/battery-status/, which TypeScript does not declare. */
interface Battery extends EventTarget {
  readonly charging: boolean;
}

/** The number of frames that are measured. In a low power mode, they take one second. */
const MEASURED_FRAMES = 30;

const onBattery = signal<boolean | null>(null);
let isAsked = false;

/**
 * Returns a signal: whether the machine runs on its battery; `null` if the browser does not report
 * that.
 */
export function isOnBattery(): ReadonlySignal<boolean | null> {
  if (!isAsked) void askBattery();
  isAsked = true;
  return onBattery;
}

async function askBattery(): Promise<void> {
  const { getBattery } = navigator as { getBattery?: () => Promise<Battery> };
  try {
    const battery = await getBattery?.call(navigator);
    if (battery === undefined) return;
    const read = (): void => void (onBattery.value = !battery.charging);
    battery.addEventListener('chargingchange', read);
    read();
  } catch {
    // A permissions policy forbids the battery's state, so it stays unknown.
  }
}

/**
 * Measures the next frames of this page. Calls `report` once, with the milliseconds between them. A
 * hidden page draws no frames, so it reports nothing. The returned function cancels the
 * measurement.
 */
export function measureFrameTimes(report: (frameMs: number[]) => void): () => void {
  const times: number[] = [];
  let request = requestAnimationFrame(function frame(at) {
    times.push(at);
    if (times.length <= MEASURED_FRAMES) request = requestAnimationFrame(frame);
    else report(times.slice(1).map((time, i) => time - times[i]!));
  });
  return () => cancelAnimationFrame(request);
}
