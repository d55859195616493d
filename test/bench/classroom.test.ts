/** The part of `bench classroom` that runs no tabs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { section, type ClassRun } from '../../bench/classroom/benchmark.ts';
import { killTree, memoryOf, processTree } from '../../bench/classroom/processes.ts';
import { Register } from '../../bench/classroom/register.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';

const STEP: EngineEvent = {
  ...{ type: 'step', step: 0, epoch: 0, offset: 0, loss: 1, samples: 8, at: 0 },
  ms: { total: 10, data: 0, compute: 4, readback: 1, communicate: 5, exposed: 5, update: 1 },
};

const RUN: ClassRun = {
  algorithm: 'ring',
  used: ['ring'],
  secondsToFirstStep: 30,
  stepMs: { total: 1000, data: 0, compute: 100, readback: 0, communicate: 900, exposed: 900, update: 1 },
  memoryMbPerTab: 150,
  ...{ left: 5, secondsAfterLeave: 5, secondsAfterJoin: 20 },
};

test('the section shows the algorithms side by side', () => {
  const text = section({ tabs: 30, runs: [RUN, { ...RUN, algorithm: 'auto', used: ['two-level'] }] });
  expect(text).toContain('## A class of 30');
  expect(text).toMatch(/\| algorithm of the gradients +\| +ring \| +two-level \|/);
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
    tabs.on('ann', STEP);
    tabs.remove('ben');
    await expect(tabs.all('took a step', 1000, ({ steps }) => steps > 0)).resolves.toBeUndefined();
  });

  test('names the tabs that are missing at the deadline, with their states', async () => {
    const tabs = register('ann', 'ben');
    tabs.on('ann', STEP);
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
