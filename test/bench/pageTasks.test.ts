import { describe, expect, test } from 'vitest';
import { tasksOf, type TraceEvent } from '../../bench/pageTasks/mainThread.ts';

const ORIGIN = 'http://localhost:8080';
const PAGE = 7;
const OTHER_PAGE = 8;
const MAIN = 1;
const COMPOSITOR = 2;

const task = (pid: number, tid: number, dur: number, tdur: number): TraceEvent => ({
  ...{ name: 'RunTask', ph: 'X', pid, tid, dur, tdur, args: {} },
});

/** The start of a trace of two pages. The page of {@link ORIGIN} has two threads. */
const START: TraceEvent[] = [
  {
    ...{ name: 'TracingStartedInBrowser', ph: 'I', pid: 1, tid: 1 },
    args: {
      data: {
        frames: [
          { processId: OTHER_PAGE, url: 'about:blank' },
          { processId: PAGE, url: `${ORIGIN}/#simulated` },
        ],
      },
    },
  },
  { name: 'thread_name', ph: 'M', pid: OTHER_PAGE, tid: MAIN, args: { name: 'CrRendererMain' } },
  { name: 'thread_name', ph: 'M', pid: PAGE, tid: COMPOSITOR, args: { name: 'Compositor' } },
  { name: 'thread_name', ph: 'M', pid: PAGE, tid: MAIN, args: { name: 'CrRendererMain' } },
];

describe('tasksOf', () => {
  test('counts the tasks of the main thread of the page, and ignores other threads and other pages', () => {
    const trace = [
      ...START,
      task(PAGE, MAIN, 90_000, 49_900),
      task(PAGE, MAIN, 60_000, 50_000),
      task(PAGE, COMPOSITOR, 200_000, 200_000),
      task(OTHER_PAGE, MAIN, 300_000, 300_000),
      { ...task(PAGE, MAIN, 400_000, 400_000), name: 'FunctionCall' },
    ];
    expect(tasksOf(trace, ORIGIN)).toEqual({ tasks: 2, longTasks: 1, longestCpuMs: 50, longestMs: 90 });
  });

  test('finds no tasks if the trace has no page of the origin', () => {
    const trace = [...START, task(PAGE, MAIN, 90_000, 90_000)];
    expect(tasksOf(trace, 'http://localhost:9')).toEqual({ tasks: 0, longTasks: 0, longestCpuMs: 0, longestMs: 0 });
  });
});
