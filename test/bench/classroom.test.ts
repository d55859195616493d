/** The part of `bench classroom` that runs no tabs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { type ClassRun, problemsOf, section, stepTimesOf, survivingSteps } from '../../bench/classroom/benchmark.ts';
import { killTree, memoryOf, processTree } from '../../bench/classroom/processes.ts';
import { Register } from '../../bench/classroom/register.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { reportOf, type Observation } from '../../tools/chaos/report.ts';

const stepEvent = (step: number, offset: number, samples: number, total = 10) => ({
  type: 'step' as const,
  ...{ step, epoch: 0, offset, loss: 1, samples, at: 0 },
  ms: { total, data: 0, compute: 4, readback: 1, communicate: 5, exposed: 5, update: 1 },
});

const seen = (tab: string, step: number, offset: number, samples: number): Observation => ({
  at: step,
  tab,
  event: stepEvent(step, offset, samples),
});

const MODEL: Observation = {
  at: 0,
  tab: 'ann',
  event: {
    type: 'model',
    ...{ parameters: 10, gradientBytes: 40, bucketBytes: [40], totalSteps: 10, trainSamples: 1000, testSamples: 0 },
  },
};

describe('samples of a class', () => {
  test('a step is not counted if all its tabs have left, because the remaining tabs repeat it', () => {
    const observations = [
      MODEL,
      ...['ann', 'ben'].map((tab) => seen(tab, 0, 0, 30)),
      // Only ben receives the end of the sum, and is killed.
      seen('ben', 1, 30, 30),
      seen('ann', 1, 30, 20),
    ];
    expect(reportOf(observations, []).samplesRepeated).toBe(20);
    const survived = survivingSteps(observations, new Set(['ben']));
    expect(reportOf(survived, [])).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0 });
  });

  test('a step of tabs that left is counted if no other tab took a step with the same number', () => {
    const observations = [seen('ben', 0, 0, 30), seen('ann', 1, 30, 30)];
    expect(survivingSteps(observations, new Set(['ben']))).toEqual(observations);
  });

  test('a sample that the remaining tabs use twice is reported', () => {
    const observations = [MODEL, seen('ann', 0, 0, 30), seen('ann', 1, 20, 30)];
    expect(reportOf(survivingSteps(observations, new Set(['ben'])), []).samplesRepeated).toBe(10);
  });
});

const RUN: ClassRun = {
  algorithm: 'ring',
  used: ['ring'],
  secondsToFirstStep: 30,
  stepMs: { total: 1000, data: 0, compute: 100, readback: 0, communicate: 900, exposed: 900, update: 1 },
  memoryMbPerTab: 150,
  ...{ left: 5, secondsAfterLeave: 5, secondsAfterJoin: 20, steps: 60 },
  ...{ samplesSkipped: 0, samplesRepeated: 0, hashMismatches: 0 },
};

test('problems of a run, such as skipped samples or different states, are named with its algorithm', () => {
  const runs = [RUN, { ...RUN, algorithm: 'auto' as const, samplesSkipped: 2, samplesRepeated: 3, hashMismatches: 1 }];
  expect(problemsOf({ tabs: 30, runs: [RUN] })).toEqual([]);
  expect(problemsOf({ tabs: 30, runs })).toEqual([
    'with auto, 2 samples were skipped',
    'with auto, 3 samples were repeated',
    'with auto, tabs had different states after 1 steps',
  ]);
});

test('the section shows the algorithms side by side', () => {
  const text = section({ tabs: 30, runs: [RUN, { ...RUN, algorithm: 'auto', used: ['two-level'] }] });
  expect(text).toContain('## A class of 30');
  expect(text).toMatch(/\| algorithm of the gradients +\| +ring \| +two-level \|/);
});

test('step times are medians over all tabs, without the first three steps', () => {
  const observations = [1000, 1000, 1000, 20, 30, 40].flatMap((total, step) =>
    ['ann', 'ben'].map((tab) => ({ at: step, tab, event: stepEvent(step, 0, 8, total) })),
  );
  expect(stepTimesOf(observations)).toMatchObject({ total: 30, data: 0, compute: 4, communicate: 5 });
});

const register = (...names: string[]): Register => {
  const created = new Register(new AbortController().signal);
  for (const name of names) created.add(name);
  return created;
};
const state = (detail: string): EngineEvent => ({
  type: 'state',
  ...{ state: 'WAITING', generation: 0, detail, isServerAway: false, connecting: [] },
});

describe('the register', () => {
  test('waits for all tabs except those that have left', async () => {
    const tabs = register('ann', 'ben');
    tabs.on('ann', stepEvent(0, 0, 8));
    tabs.remove('ben');
    await expect(tabs.all('took a step', 1000, ({ steps }) => steps > 0)).resolves.toBeUndefined();
  });

  test('names the tabs that are missing at the deadline, with their states', async () => {
    const tabs = register('ann', 'ben');
    tabs.on('ann', stepEvent(0, 0, 8));
    tabs.on('ben', state('waiting for the host'));
    await expect(tabs.all('took a step', 1, ({ steps }) => steps > 0)).rejects.toThrow(
      'Not all tabs took a step within 0.001 s. Missing: ben (waiting for the host).',
    );
  });

  test('ends a wait with the error of a tab that has failed', async () => {
    const tabs = register('ann');
    const wait = tabs.all('took a step', 10_000, ({ steps }) => steps > 0);
    tabs.on('ann', { type: 'failed', name: 'DeviceError', message: 'The GPU is lost.', fatal: true });
    await expect(wait).rejects.toThrow('ann: The GPU is lost.');
  });
});

test.runIf(process.platform === 'linux')(
  'the memory of a process includes its descendants, and all of them are killed together',
  async () => {
    const child = spawn('sh', ['-c', 'sleep 60 & echo started; wait'], { stdio: ['ignore', 'pipe', 'ignore'] });
    const ended = once(child, 'exit');
    await once(child.stdout, 'data');
    const tree = processTree(child.pid!);
    expect(tree).toHaveLength(2);
    expect(tree[0]).toBe(child.pid);
    for (const pid of tree) expect(memoryOf(pid)).toBeGreaterThan(0);
    killTree(child.pid!);
    await ended;
    expect(memoryOf(child.pid!)).toBe(0);
  },
);
