/** What the command line prints about data before a run. */
import { expect, test } from 'vitest';
import { toJsonLines } from '../../launcher/output/jsonLines.ts';
import { createLog } from '../../launcher/output/log.ts';
import { en } from '../../src/app/locales/en/index.ts';
import { zh } from '../../src/app/locales/zh/index.ts';
import { previewFiles } from '../../src/jobs/index.ts';
import { parseJob } from '../../src/spec/job.ts';
import { DATA_NOTE_KINDS, type DataNote, sentencesOfNotes } from '../../src/spec/preview.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { ManualClock } from '../manualClock.ts';

const rows = Array.from({ length: 150 }, (_, i) => `${i},note ${i},,${['yes', 'no', ''][i % 3]}`);
const file = new File([`size,text,gap,good\n${rows.join('\n')}\n`], 'a.csv');

async function previewOfTable(): Promise<EngineEvent> {
  const found = await previewFiles(parseJob({ job: 'table', data: { kind: 'files' } }), [file]);
  return { type: 'preview', ...found };
}

function collect() {
  const lines: string[] = [];
  const io = { out: () => {}, err: (line: string) => void lines.push(line), terminal: null };
  return { io: { ...io, signal: new AbortController().signal }, lines };
}

test('columns, classes and the data that are left out are printed once, even if several tabs report them', async () => {
  const { io, lines } = collect();
  const log = createLog(io, 'a', new ManualClock());
  const preview = await previewOfTable();
  for (const tab of ['a', 'b', 'a']) log.on(tab, preview);
  expect(lines.join('\n').split('\n')).toEqual([
    'Data: 150 rows and 4 columns. To predict: good, as a class.',
    '  size: numbers',
    '  text: text, left out',
    '  gap: empty, left out',
    '  good: 2 words, 50 missing',
    'Classes: no (50), yes (50).',
    '50 rows are left out, because the column to predict is empty in 50.',
    '1 column is left out (too many different words): text (“note 0”).',
    '1 column is left out (no values): gap.',
  ]);
});

test('JSON lines contain the notes about data', async () => {
  const { io, lines } = collect();
  createLog(toJsonLines(io), 'a', new ManualClock()).on('a', await previewOfTable());
  expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({
      event: 'data',
      tab: 'a',
      notes: [
        { kind: 'rows-unlabelled', count: 50, name: 'good', example: '' },
        { kind: 'column-of-text', count: 150, name: 'text', example: 'note 0' },
        { kind: 'column-empty', count: 150, name: 'gap', example: '' },
      ],
    }),
  ]);
});

test('weights that are left out of a file are logged, as text and as JSON lines', () => {
  const notes: DataNote[] = [{ kind: 'weights-normalization', count: 2, name: 'layers/normalization', example: '' }];
  const [text, json] = [collect(), collect()];
  for (const io of [text.io, toJsonLines(json.io)]) {
    const log = createLog(io, 'a', new ManualClock());
    log.on('a', { type: 'weights', file: 'mine.weights.h5', notes });
    log.on('a', { type: 'weights', file: 'other.weights.h5', notes: [] });
  }
  expect([text.lines, json.lines.map((line) => JSON.parse(line) as object)]).toEqual([
    [expect.stringMatching(/^Weights of mine\.weights\.h5:\nThe model .*layers\/normalization\. Normalize/)],
    [expect.objectContaining({ event: 'data', tab: 'a', notes })],
  ]);
});

test('each kind of note has its own sentence in each language, with a full stop', () => {
  const notes = DATA_NOTE_KINDS.map((kind): DataNote => ({ kind, count: 2, name: 'name', example: 'field' }));
  for (const { lobby } of [en, zh]) {
    const sentences = sentencesOfNotes(notes, lobby.files.notes);
    expect(sentences.filter((one) => !/[.。]$/u.test(one))).toEqual([]);
    expect(new Set(sentences).size).toBe(DATA_NOTE_KINDS.length);
  }
});

test('the log shows every few seconds how much of a large file has been read', () => {
  const { io, lines } = collect();
  const clock = new ManualClock();
  const log = createLog(io, 'a', clock);
  for (const done of [1e6, 2e6, 3e6]) {
    log.on('a', { type: 'opening', loading: { unit: 'bytes read', done, total: 45e6 } });
    clock.advance(2_500);
  }
  expect(lines).toEqual(['Loading the data: 1.0 of 45.0 MB read', 'Loading the data: 3.0 of 45.0 MB read']);
});
