/** Describes the data of a run, as the page's preview does. */
import type { EventOf, LoadProgress } from '../../src/protocol/events.ts';
import {
  type DataPreview,
  type PreviewClass,
  type PreviewColumn,
  sentencesOfNotes,
  type TablePreview,
} from '../../src/spec/preview.ts';

/** Maximum number of columns, and of classes, that are listed. */
const LISTED = 40;

/** Returns lines of text: the amount of data, its columns or classes, and notes about it. */
export function describeData(preview: DataPreview): string {
  return [...contentOf(preview), ...sentencesOfNotes(preview.notes)].join('\n');
}

/** Returns a line with the progress of loading the data. */
export function describeLoading({ unit, done, total, rate }: LoadProgress): string {
  const speed = rate === undefined ? '' : `, ${megabytes(rate)} MB/s`;
  const verb = unit === 'bytes' ? 'received' : 'read';
  return `Loading the data: ${megabytes(done)} of ${megabytes(total)} MB ${verb}${speed}`;
}

/** Returns lines of text that say which weights of a file are left out or rounded. */
export function describeWeights({ file, notes }: EventOf<'weights'>): string {
  return [`Weights of ${file}:`, ...sentencesOfNotes(notes)].join('\n');
}

function contentOf(preview: DataPreview): string[] {
  switch (preview.kind) {
    case 'table':
      return [describeTable(preview), ...listed(preview.columns.map(describeColumn)), ...classesOf(preview.classes)];
    case 'images': {
      const { samples, heldOut, shape } = preview;
      return [`Data: ${samples} samples of ${shape.join(' x ')}, ${heldOut} held out.`, ...classesOf(preview.classes)];
    }
    case 'gpt': {
      const { samples, heldOut, characters, vocabulary } = preview;
      return [
        `Data: ${characters} characters; the vocabulary has ${vocabulary} tokens. ${samples} samples, ${heldOut} held out.`,
      ];
    }
    default:
      return preview satisfies never;
  }
}

function describeTable({ rows, columns, target, task }: TablePreview): string {
  const as = task === null ? '' : task === 'classification' ? ', as a class' : ', as an amount';
  return `Data: ${rows} rows and ${columns.length} columns. To predict: ${target}${as}.`;
}

function describeColumn({ name, kind, mark, missing, distinct }: PreviewColumn): string {
  const kinds = {
    number: mark === 'comma' ? 'numbers with a decimal comma' : 'numbers',
    category: `${distinct} words`,
    text: 'text, left out',
    empty: 'empty, left out',
  };
  return `  ${name}: ${kinds[kind]}${missing > 0 && kind !== 'empty' ? `, ${missing} missing` : ''}`;
}

function classesOf(classes: readonly PreviewClass[]): string[] {
  const named = classes.slice(0, LISTED).map(({ name, count }) => `${name} (${count})`);
  const more = classes.length > LISTED ? `, and ${classes.length - LISTED} more` : '';
  return classes.length === 0 ? [] : [`Classes: ${named.join(', ')}${more}.`];
}

function listed(lines: readonly string[]): string[] {
  const more = lines.length - LISTED;
  return more > 0 ? [...lines.slice(0, LISTED), `  and ${more} more columns`] : [...lines];
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
