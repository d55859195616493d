/** Generates the files that `bench input` trains on. */
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { deflateSync } from 'node:zlib';
import { zipSync } from 'fflate';
import { crc32 } from '../../src/util/crc32.ts';
import { createRng } from '../../src/util/rng.ts';

/** Side of a picture file, in pixels. */
const SIDE = 96;
const CLASSES = 10;
const COLUMNS = 10;

/**
 * Returns PNG files of discs, in a folder for each of ten classes. The size of a disc is its class.
 */
function pictures(count: number): Record<string, Uint8Array> {
  const rng = createRng(1);
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => {
      const label = i % CLASSES;
      const [x, y] = [rng.next() * SIDE, rng.next() * SIDE];
      const pixel = (column: number, row: number): number[] =>
        Math.hypot(column - x, row - y) < 5 + 4 * label ? [250, 20 * label, 20] : [rng.next() * 99, 20 * label, 120];
      return [`class-${label}/${i}.png`, png(pixel)];
    }),
  );
}

/** Returns a PNG file of `SIDE` x `SIDE` colour pixels. Source: the PNG specification (W3C). */
function png(pixel: (column: number, row: number) => number[]): Uint8Array {
  const rows = Array.from({ length: SIDE }, (_, row) => [
    0,
    ...Array.from({ length: SIDE }, (__, column) => pixel(column, row)).flat(),
  ]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  header.set([8, 2], 8);
  const data = deflateSync(Uint8Array.from(rows.flat()), { level: 1 });
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(name: string, data: Uint8Array): Buffer {
  const content = Buffer.concat([Buffer.from(name), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, checksum]);
}

async function pictureFolder(folder: string, count: number): Promise<string> {
  for (let label = 0; label < CLASSES; label++) await mkdir(path.join(folder, `class-${label}`), { recursive: true });
  for (const [name, bytes] of Object.entries(pictures(count))) await writeFile(path.join(folder, name), bytes);
  return folder;
}

async function pictureZip(folder: string, count: number): Promise<string> {
  const file = path.join(folder, 'pictures.zip');
  await writeFile(file, zipSync(pictures(count), { level: 0 }));
  return file;
}

/** Rows of ten numbers and an amount that depends on them. */
async function csv(folder: string, rows: number): Promise<string> {
  const rng = createRng(1);
  const row = (): string => {
    const numbers = Array.from({ length: COLUMNS }, () => rng.next());
    const amount = numbers.reduce((sum, one, i) => sum + i * one, 0);
    return `${[...numbers, amount].map((one) => one.toFixed(4)).join(',')}\n`;
  };
  const names = [...Array.from({ length: COLUMNS }, (_, i) => `column_${i}`), 'amount'];
  return written(path.join(folder, 'table.csv'), `${names.join(',')}\n`, row, rows);
}

/** Lines of ten words from a vocabulary of a thousand. */
async function text(folder: string, characters: number): Promise<string> {
  const rng = createRng(1);
  const words = Array.from({ length: 1000 }, (_, i) => `${'bdfgklmnprst'[i % 12]}${'aeiou'[i % 5]}${i.toString(36)}`);
  const line = (): string => `${Array.from({ length: 10 }, () => words[rng.below(words.length)]).join(' ')}.\n`;
  return written(path.join(folder, 'text.txt'), '', line, Math.ceil(characters / line().length));
}

async function written(file: string, head: string, line: () => string, count: number): Promise<string> {
  const parts = function* (): Generator<string> {
    yield head;
    for (let at = 0; at < count; at += 1000) {
      yield Array.from({ length: Math.min(1000, count - at) }, line).join('');
    }
  };
  await pipeline(Readable.from(parts()), createWriteStream(file));
  return file;
}

/** A kind of data: its job, its unit, and a function that writes `count` units into a folder. */
export interface InputKind {
  readonly name: string;
  readonly job: 'images' | 'table' | 'gpt';
  readonly unit: 'pictures' | 'rows' | 'characters';
  /** Number of units by default. */
  readonly count: number;
  readonly write: (folder: string, count: number) => Promise<string>;
}

export const INPUT_KINDS: readonly InputKind[] = [
  { name: 'folder', job: 'images', unit: 'pictures', count: 15_000, write: pictureFolder },
  { name: 'zip', job: 'images', unit: 'pictures', count: 15_000, write: pictureZip },
  { name: 'table', job: 'table', unit: 'rows', count: 1_000_000, write: csv },
  { name: 'text', job: 'gpt', unit: 'characters', count: 50_000_000, write: text },
];
