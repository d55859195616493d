/** Tests the checkpoints and models that the launcher writes. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ModelWriter, type ModelOutputs } from '../../launcher/modelWriter.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { ModelFileFormat } from '../../src/spec/modelFile.ts';
import { ManualClock } from '../manualClock.ts';

/** Returns a writer. Its tabs answer when `answer` is called. */
function writerIn(outputs: Partial<ModelOutputs>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'peergrad-writer-'));
  const inFolder = (name: string) => path.join(folder, name);
  const asked: { tab: string; format: ModelFileFormat }[] = [];
  const notes: string[] = [];
  const released: number[] = [];
  let written = 0;
  const clock = new ManualClock();
  let content = new Uint8Array();
  const writer = new ModelWriter({
    checkpoint: null,
    out: null,
    onwritten: () => (written += 1),
    ...outputs,
    ...(typeof outputs.checkpoint === 'string' && { checkpoint: inFolder(outputs.checkpoint) }),
    ...(outputs.out && { out: { ...outputs.out, path: inFolder(outputs.out.path) } }),
    clock,
    release: (step) => Promise.resolve(void released.push(step)),
    ask: (tab, format) => Promise.resolve(void asked.push({ tab, format })),
    read: (_tab, from, to) => Promise.resolve(content.subarray(from, to)),
    note: (line) => notes.push(line),
  });
  const answer = (tab: string, step: number, problem: string | null = null, bytes = Uint8Array.of(step)): void => {
    content = bytes;
    const file = problem === null ? { name: 'a', step, content: new Blob() } : null;
    writer.on(tab, { type: 'exported', id: 0, file, problem });
  };
  return { writer, asked, notes, released, clock, answer, inFolder, folder, written: () => written };
}

const hashes = (step: number, agree = true): EngineEvent => ({ type: 'hashes', step, hashes: [], agree });
const finished: EngineEvent = { type: 'finished', result: {} as RunResult };
const turns = async (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

test('the writer requests one checkpoint after each state comparison, and replaces the file as a whole', async () => {
  const { writer, asked, answer, inFolder, folder, written, released } = writerIn({ checkpoint: 'run.peergrad' });
  writer.on('a', hashes(3));
  writer.on('b', hashes(3));
  await turns();
  expect(asked).toEqual([{ tab: 'a', format: 'checkpoint' }]);
  expect(released).toEqual([]);
  answer('a', 4);
  await expect.poll(written).toBe(1);
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([4]);
  writer.on('b', hashes(7, false));
  writer.on('b', hashes(11));
  await turns();
  expect(asked.at(-1)).toEqual({ tab: 'b', format: 'checkpoint' });
  answer('b', 12);
  await expect.poll(written).toBe(2);
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([12]);
  expect(readdirSync(folder)).toEqual(['run.peergrad']);
  // The run continues after a step when the checkpoint of this step is on the disk.
  expect(released).toEqual([3, 11]);
});

test('state comparisons while a checkpoint is being written request only one more checkpoint', async () => {
  const { writer, asked, answer, written } = writerIn({ checkpoint: 'run.peergrad' });
  for (const step of [1, 2, 3, 4]) {
    writer.on('a', hashes(step));
    await turns();
  }
  expect(asked).toHaveLength(1);
  answer('a', 2);
  await expect.poll(() => asked.length).toBe(2);
  answer('a', 5);
  await expect.poll(written).toBe(2);
  expect(asked).toHaveLength(2);
});

test('the writer does not wait for a lost tab, and requests the next checkpoint from another tab', async () => {
  const { writer, asked, answer, notes, written, released } = writerIn({ checkpoint: 'run.peergrad' });
  writer.on('a', hashes(3));
  await turns();
  writer.tabLost('b');
  writer.tabLost('a');
  await writer.idle;
  expect(notes).toEqual([expect.stringMatching(/a was lost before it exported its model\./)]);
  expect(released).toEqual([3]);
  writer.on('b', hashes(7));
  await turns();
  expect(asked.map(({ tab }) => tab)).toEqual(['a', 'b']);
  answer('b', 8);
  await expect.poll(written).toBe(1);
});

test('saveLast requests one more checkpoint, and waits at most three seconds for it', async () => {
  const { writer, asked, answer, inFolder, clock } = writerIn({ checkpoint: 'run.peergrad' });
  writer.on('a', hashes(1));
  await turns();
  answer('a', 2);
  const last = writer.saveLast();
  await expect.poll(() => asked.length).toBe(2);
  answer('a', 9);
  await last;
  expect([...readFileSync(inFolder('run.peergrad'))]).toEqual([9]);
  const unanswered = writer.saveLast();
  await turns();
  clock.advance(3_000);
  await unanswered;
});

test('saveModel writes the model of the given tab', async () => {
  const { writer, asked, answer, inFolder, notes } = writerIn({ out: { path: 'm.zip', format: 'tfjs' } });
  writer.on('a', hashes(1));
  writer.on('a', finished);
  const saved = writer.saveModel('b');
  await turns();
  expect(asked).toEqual([{ tab: 'b', format: 'tfjs' }]);
  answer('b', 5);
  await saved;
  expect([...readFileSync(inFolder('m.zip'))]).toEqual([5]);
  expect(notes).toEqual([`The model after step 5 was saved to ${inFolder('m.zip')}.`]);
});

test('a large model is read from its tab in parts', async () => {
  const { writer, answer, inFolder } = writerIn({ out: { path: 'm.safetensors', format: 'safetensors' } });
  const saved = writer.saveModel('a');
  await turns();
  const bytes = new Uint8Array(20_000_000);
  for (let i = 0; i < bytes.length; i++) bytes[i] = i % 251;
  answer('a', 5, null, bytes);
  await saved;
  expect(Buffer.compare(readFileSync(inFolder('m.safetensors')), bytes)).toBe(0);
});

test('a model that cannot be saved is an error; a checkpoint that cannot be written is only logged, and only once', async () => {
  const out = writerIn({ out: { path: 'm.zip', format: 'tfjs' } });
  const saved = out.writer.saveModel('a');
  await turns();
  out.answer('a', 0, 'This tab has no model yet.');
  await expect(saved).rejects.toThrow(/^The model was not saved to .*m\.zip: This tab has no model yet\./);
  const late = out.writer.saveModel('a');
  await turns();
  out.clock.advance(60_000);
  await expect(late).rejects.toThrow('a did not export its model within 60 s.');

  const { writer, answer, notes } = writerIn({ checkpoint: 'missing/run.peergrad' });
  for (const step of [1, 2]) {
    writer.on('a', hashes(step));
    await turns();
    answer('a', step);
    await writer.idle;
  }
  expect(notes).toHaveLength(1);
  expect(notes[0]).toMatch(/^No checkpoint was written to .*: .*run\.peergrad could not be written: ENOENT/);
});
