/** Runs benchmarks in real tabs, and compares the bytes that they report with theory. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { runBench } from '../../../bench/command/cli.ts';
import { drawPanels } from '../../../tools/report/plot.ts';

vi.setConfig({ testTimeout: 150_000 });

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-bench-'));
});
afterAll(() => rm(folder, { recursive: true }));

test('ddp and parameter-server send as many bytes as theory predicts', async () => {
  const out: string[] = [];
  const err: string[] = [];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  const line = ['strategies', '--tabs', '2', '--strategies', 'ddp,parameter-server', '--json'];
  expect(await runBench(line, io), err.join('\n')).toBe(0);
  const { strategies } = JSON.parse(out.at(-1)!) as { strategies: Record<string, unknown>[] };
  expect(strategies).toMatchObject([
    { strategy: 'ddp', n: 2, syncEvery: 1 },
    { strategy: 'parameter-server', n: 2, syncEvery: 1 },
  ]);
  for (const { ratio } of strategies) expect(ratio).toBeCloseTo(1, 2);
});

test('an all-reduce in tabs is correct and sends as many bytes as theory predicts', async () => {
  const out: string[] = [];
  const err: string[] = [];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  const line = ['allreduce', '--tabs', '2', '--bytes', '4096', '--json'];
  expect(await runBench(line, io), err.join('\n')).toBe(0);
  // Each rank sends a frame in each of two ring steps: half of the tensor, and a header of 32
  // bytes.
  const row = { n: 2, bytes: 4096, bytesSentPerRank: 4096 + 2 * 32, wrong: 0 };
  expect(JSON.parse(out.at(-1)!)).toMatchObject({ rows: [row] });
});

test('an interrupt ends a benchmark before its result', async () => {
  const controller = new AbortController();
  const [out, err]: [string[], string[]] = [[], []];
  const log = (line: string): void => {
    err.push(line);
    // The tabs are linked.
    if (line.includes('all-reduce 4096 bytes')) controller.abort();
  };
  const io = { out: (l: string) => void out.push(l), err: log, terminal: null, signal: controller.signal };
  expect(await runBench(['allreduce', '--tabs', '2', '--bytes', '4096'], io)).toBe(130);
  expect(err.at(-1)).toBe('bench: interrupted.');
  expect(out).toEqual([]);
});

test('drawPanels draws panels side by side into a PNG file', async () => {
  const file = path.join(folder, 'panels.png');
  const curve = { label: 'a', colour: '#1f4e9c', width: 2, dash: [], values: [3, 2, 1] };
  const panel = { title: 'T', x: 'step', y: 'loss', curves: [curve] };
  await drawPanels([panel, { ...panel, isLogarithmic: true }], file);
  const png = await readFile(file);
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  // A PNG header begins with the width and the height: two panels, at two device pixels per pixel.
  expect(png.readUInt32BE(16)).toBe(2 * 2 * 640);
  expect(png.readUInt32BE(20)).toBeGreaterThan(600);
});
