/** The log of tabs, for people and as JSON lines. */
import { describe, expect, test } from 'vitest';
import { runCli } from '../../launcher/cli.ts';
import { toJsonLines } from '../../launcher/output/jsonLines.ts';
import { createLog, errorsOf } from '../../launcher/output/log.ts';
import type { CodecChoice, RunResult } from '../../src/protocol/runResult.ts';
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';
import { ManualClock } from '../manualClock.ts';

function collect() {
  const lines: string[] = [];
  const io = { out: () => {}, err: (line: string) => void lines.push(line), terminal: null };
  return {
    io: { ...io, signal: new AbortController().signal },
    lines: () => lines.map((line) => JSON.parse(line) as object),
  };
}

function collectText() {
  const lines: string[] = [];
  const { io } = collect();
  return { io: { ...io, err: (line: string) => void lines.push(line) }, lines };
}

const step = (n: number): EngineEvent => ({
  type: 'step',
  step: n,
  epoch: 0,
  offset: 0,
  loss: 0.5,
  samples: 8,
  at: 0,
  ms: { total: 0, data: 0, compute: 0, readback: 0, communicate: 0, exposed: 0, update: 0 },
});

test('a newcomer that receives the model logs its progress from time to time', () => {
  const received = { bytes: 41e6, total: 120e6, rate: 25e4, behind: null, waitsMs: null };
  const event: EngineEvent = { type: 'warmup', stage: 'receiving', message: 'Receiving the model', received };
  const text = collectText();
  const json = collect();
  const clock = new ManualClock();
  for (const log of [createLog(text.io, 'a', clock), createLog(toJsonLines(json.io), 'a', clock)]) {
    log.on('a', event);
    log.on('a', event);
    clock.advance(5_000);
    log.on('a', event);
  }
  expect(text.lines).toEqual(['Receiving the model', 'Receiving the model']);
  expect(json.lines()).toEqual(
    Array.from({ length: 2 }, () => expect.objectContaining({ event: 'receiving', ...received }) as object),
  );
});

test('a note of any tab is logged once for people, and for each tab as a JSON line', () => {
  const text = collectText();
  const json = collect();
  const clock = new ManualClock();
  for (const log of [createLog(text.io, 'a', clock), createLog(toJsonLines(json.io), 'a', clock)]) {
    for (const tab of ['b', 'a']) log.on(tab, { type: 'note', message: 'A picture is left out: cats/1.png' });
  }
  expect(text.lines).toEqual(['A picture is left out: cats/1.png']);
  expect(json.lines()).toEqual(
    ['b', 'a'].map((tab) => expect.objectContaining({ event: 'note', tab, msg: `${tab}: ${text.lines[0]}` }) as object),
  );
});

test('if tabs report very many notes, people see the first ones and how to see all', () => {
  const { io, lines } = collectText();
  const log = createLog(io, 'a', new ManualClock());
  for (let i = 0; i < 50; i++) log.on('a', { type: 'note', message: `note ${i}` });
  expect(lines).toEqual([
    ...Array.from({ length: 20 }, (_, i) => `note ${i}`),
    'Further notes are not shown. To see all, pass --json-lines.',
  ]);
});

test('if the others continue without a tab, this tab logs why, and what helps', () => {
  const message = 'The other ranks are in a network that this tab cannot reach. Use their network.';
  const text = collectText();
  const json = collect();
  const clock = new ManualClock();
  for (const log of [createLog(text.io, 'a', clock), createLog(toJsonLines(json.io), 'a', clock)]) {
    log.on('a', { type: 'suspended', message });
  }
  expect(text.lines).toEqual([message]);
  expect(json.lines()).toMatchObject([{ event: 'suspended', tab: 'a', msg: `a: ${message}` }]);
});

test('JSON lines contain the progress of loading the data, for each tab from time to time', () => {
  const { io, lines } = collect();
  const clock = new ManualClock();
  const log = createLog(toJsonLines(io), 'a', clock);
  const loading = { unit: 'bytes read', done: 4e6, total: 30e6, rate: 2e6 } as const;
  const event: EngineEvent = { type: 'warmup', stage: 'data', message: 'Loading the data', loading };
  for (const tab of ['a', 'a', 'b']) log.on(tab, event);
  clock.advance(5_000);
  log.on('a', { type: 'opening', loading: { unit: 'bytes', done: 5e6, total: 82e6 } });
  expect(lines()).toMatchObject([
    { event: 'loading', tab: 'a', ...loading, msg: 'a: Loading the data: 4.0 of 30.0 MB read, 2.0 MB/s' },
    { event: 'loading', tab: 'b', ...loading },
    { event: 'loading', tab: 'a', unit: 'bytes', msg: 'a: Loading the data: 5.0 of 82.0 MB received' },
  ]);
});

test('JSON lines contain some of the steps, the result without its losses, and each page error once', () => {
  const { io, lines } = collect();
  const clock = new ManualClock();
  const log = createLog(toJsonLines(io), 'a', clock);
  log.on('a', step(0));
  log.on('a', step(1));
  log.on('b', step(1));
  clock.advance(5_000);
  log.on('a', step(2));
  log.on('a', { type: 'finished', result: { steps: 3, losses: [1, 2, 3] } as RunResult });
  const onError = errorsOf(log);
  onError('a', 'Oh.');
  onError('b', 'Oh.');
  expect(lines()).toEqual([
    expect.objectContaining({
      level: 30,
      time: expect.any(Number) as number,
      event: 'step',
      tab: 'a',
      step: 0,
      loss: 0.5,
    }),
    expect.objectContaining({ event: 'step', tab: 'b', step: 1 }),
    expect.objectContaining({ event: 'step', tab: 'a', step: 2, msg: 'a has taken 3 steps.' }),
    expect.objectContaining({ event: 'finished', tab: 'a', result: { steps: 3 } }),
    expect.objectContaining({ event: 'page-error', tab: 'a', msg: 'a: Oh.' }),
  ]);
});

test('JSON lines contain the chosen codec and the reason', () => {
  const { io, lines } = collect();
  const log = createLog(toJsonLines(io), 'a', new ManualClock());
  const choice: CodecChoice = {
    codec: 'int8',
    ownMs: 20,
    communicateMs: 100,
    exposedMs: 95,
    bytesPerMs: 1200,
    suggestion: null,
    expectedMs: { fp32: 95, fp16: 48, int8: 24, powersgd: 30 },
  };
  log.on('a', { type: 'codec', step: 3, choice });
  log.on('a', { type: 'codec', step: 3, choice: { ...choice, codec: 'fp32', suggestion: 'diloco' } });
  expect(lines()).toEqual([
    expect.objectContaining({
      event: 'codec',
      tab: 'a',
      step: 3,
      choice,
      msg: 'Codec int8: with fp32, communication added 95 ms per step (computation: 20 ms); with int8 it should add about 24 ms.',
    }),
    expect.objectContaining({
      msg:
        'Codec fp32: communication adds 95 ms per step (computation: 20 ms), and a codec would save too little to be worth its ' +
        'rounding. The strategy diloco communicates less often.',
    }),
  ]);
});

test('JSON lines contain the errors of the command line', async () => {
  const { io, lines } = collect();
  expect(await runCli(['join', 'nowhere', '--json-lines'], io, {})).toBe(2);
  expect(lines()).toEqual([
    expect.objectContaining({
      event: 'note',
      msg: expect.stringMatching(/"nowhere" is not the address of a room/) as string,
    }),
  ]);
});

test('JSON lines contain the shares once speeds are measured, and name a rank with an impossible speed', () => {
  const { io, lines } = collect();
  const log = createLog(toJsonLines(io), 'a', new ManualClock());
  const shares = { type: 'shares', impossible: [], speeds: [null, null, null] } as const;
  log.on('a', { ...shares, step: 0, shares: [4, 4, 4], reason: 'unknown', impossible: [], speeds: [] });
  const impossible = [{ rank: 1, reported: 'NaN' }];
  log.on('a', { ...shares, step: 8, shares: [6, 4, 2], reason: 'speed', impossible, speeds: [300, null, 100] });
  // Other speeds alone are no other shares.
  log.on('a', { ...shares, step: 12, shares: [6, 4, 2], reason: 'speed', impossible, speeds: [250, null, 100] });
  expect(lines()).toEqual([
    expect.objectContaining({
      ...{
        event: 'shares',
        tab: 'a',
        step: 8,
        shares: [6, 4, 2],
        reason: 'speed',
        impossible,
        speeds: [300, null, 100],
      },
      msg:
        'Ranks compute 50 %, 33 %, 17 % of a step. Shares follow their measured speeds. Rank 1 reports an impossible speed ' +
        'of NaN samples per second, so its share is at most an equal one. Reload that tab.',
    }),
  ]);
});

const reports = (reported: string) => [{ rank: 1, reported }];

describe('shares of a step that do not change are logged once', () => {
  const shares: EventOf<'shares'> = {
    type: 'shares',
    step: 0,
    shares: [4, 4],
    reason: 'similar',
    impossible: [],
    speeds: [null, null],
  };
  const unequal: EventOf<'shares'> = { ...shares, shares: [6, 2], reason: 'speed' };
  test.each<[string, EngineEvent[], number]>([
    ['with another reason', (['similar', 'overhead', 'similar'] as const).map((reason) => ({ ...shares, reason })), 1],
    [
      'with speeds that are unknown in between',
      (['similar', 'unknown', 'similar'] as const).map((reason) => ({ ...shares, reason })),
      1,
    ],
    [
      'with another impossible speed of the same rank',
      ['NaN', '1e300', '-4'].map((text) => ({ ...unequal, impossible: reports(text) })),
      1,
    ],
    [
      'and each change is logged',
      [
        shares,
        unequal,
        { ...shares, reason: 'overhead' },
        { ...shares, reason: 'overhead', impossible: reports('NaN') },
      ],
      4,
    ],
  ])('%s', (_, events, count) => {
    const people = collectText();
    const programs = collect();
    const logs = [
      createLog(people.io, 'a', new ManualClock()),
      createLog(toJsonLines(programs.io), 'a', new ManualClock()),
    ];
    for (const event of events) for (const log of logs) log.on('a', event);
    expect([people.lines.length, programs.lines().length]).toEqual([count, count]);
  });
});
