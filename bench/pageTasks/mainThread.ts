/**
 * Measures the tasks of a page's main thread with Chromium's trace. CPU time is measured beside
 * wall-clock time: where tabs compute WebGPU in software, processes wait for a free core, and a
 * task of one millisecond may last a hundred.
 */
import type { Browser } from '../../launcher/browser/browser.ts';

type Page = Awaited<ReturnType<Browser['newPage']>>;

/** An event of the trace. `dur` is its wall-clock time and `tdur` its CPU time, in microseconds. */
export interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  dur?: number;
  tdur?: number;
  args: { name?: string; data?: { frames?: { processId: number; url: string }[] } };
}

export interface MainThreadTasks {
  tasks: number;
  /** Tasks that took {@link LONG_TASK_MS} or more of CPU time. */
  longTasks: number;
  /** The most CPU time, and the most wall-clock time, that a task took, in milliseconds. */
  longestCpuMs: number;
  longestMs: number;
}

/** Users notice tasks of this length (https://web.dev/articles/optimize-long-tasks). */
export const LONG_TASK_MS = 50;

/** Traces the open `page` for `ms` milliseconds. */
export async function measureMainThread(browser: Browser, page: Page, ms: number): Promise<MainThreadTasks> {
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] });
  await page.waitForTimeout(ms);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  return tasksOf(traceEvents, new URL(page.url()).origin);
}

/** Returns the tasks of the main thread of the page of `origin`, which has a process of its own. */
export function tasksOf(traceEvents: readonly TraceEvent[], origin: string): MainThreadTasks {
  const frames = traceEvents.find(({ name }) => name === 'TracingStartedInBrowser')?.args.data?.frames ?? [];
  const pid = frames.find(({ url }) => url.startsWith(origin))?.processId;
  const main = traceEvents.find(
    (event) => event.pid === pid && event.name === 'thread_name' && event.args.name === 'CrRendererMain',
  );
  const tasks = traceEvents.filter(
    (event) => event.name === 'RunTask' && event.ph === 'X' && event.pid === pid && event.tid === main?.tid,
  );
  const cpuMs = tasks.map(({ tdur = 0 }) => tdur / 1000);
  return {
    tasks: tasks.length,
    longTasks: cpuMs.filter((ms) => ms >= LONG_TASK_MS).length,
    longestCpuMs: longestOf(cpuMs),
    longestMs: longestOf(tasks.map(({ dur = 0 }) => dur / 1000)),
  };
}

function longestOf(times: readonly number[]): number {
  return times.reduce((a, b) => Math.max(a, b), 0);
}
