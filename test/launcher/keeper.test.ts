/** What a launcher writes of a run. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Keeper, type Kept } from '../../launcher/keeper.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { ModelFormat } from '../../src/spec/modelFile.ts';
import { ManualClock } from '../manualClock.ts';

/** A keeper whose tabs answer when they are told to. */
function keeperIn(kept: Partial<Kept>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'peergrad-keeper-'));
  const inFolder = (name: string) => path.join(folder, name);
  const asked: { tab: string; format: ModelFormat }[] = [];
  const notes: string[] = [];
  const released: number[] = [];
  let written = 0;
  const clock = new ManualClock();
  const keeper = new Keeper({
    ...{ checkpoint: null, out: null, onwritten: () => (written += 1), ...kept },
    ...(typeof kept.checkpoint === 'string' && { checkpoint: inFolder(kept.checkpoint) }),
    ...(kept.out && { out: { ...kept.out, path: inFolder(kept.out.path) } }),
    clock,
    release: (step) => Promise.resolve(void released.push(step)),
    ask: (tab, format) => Promise.resolve(void asked.push({ tab, format })),
    note: (line) => notes.push(line),
  });
  const answer = (tab: string, step: number, problem: string | null = null): void => {
    const file = problem === null ? { name: 'a', step, bytes: Uint8Array.of(step) } : null;
    keeper.on(tab, { type: 'exported', id: 0, file, problem });
  };
  return { keeper, asked, notes, released, clock, answer, inFolder, folder, written: () => written };
}

const hashes = (step: number, agree = true): EngineEvent => ({ type: 'hashes', step, hashes: [], agree });
const finished: EngineEvent = { type: 'finished', result: {} as RunResult };
const turns = async (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

test('a checkpoint is asked for at every comparison, once, and takes the place of the one before as a whole', async () => {
  const { keeper, asked, answer, inFolder, folder, written, released } = keeperIn({ checkpoint: 'run.peergrad' });
  keeper.on('a', hashes(3));
  keeper.on('b', hashes(3));
  await turns();
  expect(asked).toEqual([{ tab: 'a', format: 'checkpoint' }]);
  expect(released).toEqual([]);
  answer('a', 4);
  await expect.poll(written).toBe(1);
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([4]);
  keeper.on('b', hashes(7, false));
  keeper.on('b', hashes(11));
  await turns();
  expect(asked.at(-1)).toEqual({ tab: 'b', format: 'checkpoint' });
  answer('b', 12);
  await expect.poll(written).toBe(2);
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([12]);
  expect(readdirSync(folder)).toEqual(['run.peergrad']);
  // Each once it is on the disk.
  expect(released).toEqual([3, 11]);
});

test('comparisons that come while one is written are answered by one more', async () => {
  const { keeper, asked, answer, written } = keeperIn({ checkpoint: 'run.peergrad' });
  for (const step of [1, 2, 3, 4]) {
    keeper.on('a', hashes(step));
    await turns();
  }
  expect(asked).toHaveLength(1);
  answer('a', 2);
  await expect.poll(() => asked.length).toBe(2);
  answer('a', 5);
  await expect.poll(written).toBe(2);
  expect(asked).toHaveLength(2);
});

test('a tab that is lost is not waited for: the next comparison asks another', async () => {
  const { keeper, asked, answer, notes, written, released } = keeperIn({ checkpoint: 'run.peergrad' });
  keeper.on('a', hashes(3));
  await turns();
  keeper.lose('b');
  keeper.lose('a');
  await keeper.idle;
  expect(notes).toEqual([expect.stringMatching(/a was lost before it gave its model\./)]);
  expect(released).toEqual([3]);
  keeper.on('b', hashes(7));
  await turns();
  expect(asked.map(({ tab }) => tab)).toEqual(['a', 'b']);
  answer('b', 8);
  await expect.poll(written).toBe(1);
});

test('Ctrl-C asks for one more, and waits three seconds for it at most', async () => {
  const { keeper, asked, answer, inFolder, clock } = keeperIn({ checkpoint: 'run.peergrad' });
  keeper.on('a', hashes(1));
  await turns();
  answer('a', 2);
  const last = keeper.saveLast();
  await expect.poll(() => asked.length).toBe(2);
  answer('a', 9);
  await last;
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([9]);
  const unanswered = keeper.saveLast();
  await turns();
  clock.advance(3_000);
  await unanswered;
});

test('the model is written when the run has ended, by whoever saw it', async () => {
  const { keeper, asked, answer, inFolder, notes } = keeperIn({ out: { path: 'm.zip', format: 'tfjs' } });
  keeper.on('a', hashes(1));
  keeper.on('a', finished);
  const saved = keeper.saveModel('b');
  await turns();
  expect(asked).toEqual([{ tab: 'b', format: 'tfjs' }]);
  answer('b', 5);
  await saved;
  expect([...readFileSync(inFolder('m.zip'))]).toEqual([5]);
  expect(notes).toEqual([`The model after step 5 is in ${inFolder('m.zip')}.`]);
});

test('it says why a file is not written: a model that is missing ends the command, a checkpoint is a note', async () => {
  const out = keeperIn({ out: { path: 'm.zip', format: 'tfjs' } });
  const saved = out.keeper.saveModel('a');
  await turns();
  out.answer('a', 0, 'This tab has no model yet.');
  await expect(saved).rejects.toThrow(/^The model was not saved to .*m\.zip: This tab has no model yet\./);
  const late = out.keeper.saveModel('a');
  await turns();
  out.clock.advance(60_000);
  await expect(late).rejects.toThrow('a did not give its model within 60 s.');

  const { keeper, answer, notes } = keeperIn({ checkpoint: 'missing/run.peergrad' });
  for (const step of [1, 2]) {
    keeper.on('a', hashes(step));
    await turns();
    answer('a', step);
    await turns();
  }
  expect(notes).toHaveLength(1);
  expect(notes[0]).toMatch(/^No checkpoint was written to .*: .*run\.peergrad could not be written: ENOENT/);
});
