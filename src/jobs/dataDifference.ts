/**
 * Compares the data that a model was trained on with the data of a run. Inputs and outputs must
 * have the same meaning; their scales may differ.
 */
import type { ColumnFacts, ImagesFacts, SampleFacts, ShardFacts, TableFacts } from '../spec/dataFacts.ts';
import { DataError } from '../util/errors.ts';
import { keyOfTableFacts, columnNamesText } from './table/tableAgreement.ts';

/** Maximum number of classes or words that a message lists. */
const MOST_NAMED = 8;

/**
 * Compares the data of a model with the data of a run.
 *
 * @param file the model's file, for errors.
 * @param own facts of the run's data; `null` if unknown.
 * @throws DataError if inputs or outputs have a different meaning.
 */
export function checkTrainedFacts(file: string, trained: ShardFacts, own: SampleFacts | null): void {
  if (trained.kind === 'text' || own === null) return;
  const why = dataDifference(trained, own);
  if (why === null) return;
  throw new DataError(
    `${file} contains a model that was trained on other data: ${why}. Choose a model for this data, choose the model's data, or start without the file.`,
  );
}

/**
 * Describes the differences between the samples that a model was trained on (`trained`) and the
 * samples of the run (`own`). Returns `null` if inputs and outputs have the same meaning in both.
 */
export function dataDifference(trained: SampleFacts, own: SampleFacts): string | null {
  if (trained.kind === 'table' && own.kind === 'table') return otherTable(trained, own);
  if (trained.kind === 'images' && own.kind === 'images') return otherImages(trained, own);
  return trained.kind === 'table'
    ? 'it was trained on a table, but this data consists of images'
    : 'it was trained on images, but this data is a table';
}

function otherTable(trained: TableFacts, own: TableFacts): string | null {
  if (trained.target !== own.target) {
    return `it predicts ${JSON.stringify(trained.target)}, but this job predicts ${JSON.stringify(own.target)}`;
  }
  if (keyOfTableFacts(trained) !== keyOfTableFacts(own)) {
    return `its columns are ${columnNamesText(trained, own)}, but here they are ${columnNamesText(own, trained)}`;
  }
  if (trained.task !== own.task) {
    return `it predicts ${JSON.stringify(own.target)} by ${trained.task}, but this job predicts it by ${own.task}`;
  }
  for (const [i, column] of own.columns.entries()) {
    const theirs = trained.columns[i]!;
    const name = `its column ${JSON.stringify(column.name)}`;
    const isTarget = column.name === own.target;
    const [there, here] = [theirs, column].map((one) => (isTarget ? 'predicted' : roleOf(one)));
    if (there !== here) return `${name} is ${there}, but here it is ${here}`;
    if (!isTarget && column.kind !== 'category') continue;
    const others = otherValues(theirs.values ?? [], column.values ?? []);
    if (others !== null) return `${name} has other values (${others})`;
  }
  return null;
}

/** Describes how the model uses a column as its input. */
function roleOf({ kind, isMissing }: ColumnFacts): string {
  if (kind === 'number') return isMissing ? 'numbers with missing values' : 'numbers without missing values';
  return kind === 'category' ? 'categories' : 'left out';
}

function otherImages(trained: ImagesFacts, own: ImagesFacts): string | null {
  const [there, here] = [trained, own].map(
    ({ shape, moments }) => `${shape.join(' x ')} ${moments === null ? 'bytes' : 'numbers that are not bytes'}`,
  );
  if (there !== here) return `its samples are ${there}, but here they are ${here}`;
  const others = otherValues(trained.classes, own.classes);
  return others === null ? null : `it has other classes (${others})`;
}

/**
 * Describes how two lists differ. Returns `null` if they are equal. Lists with the same elements in
 * a different order differ, because each position is an input or an output of the model.
 */
function otherValues(trained: readonly string[], own: readonly string[]): string | null {
  if (JSON.stringify(trained) === JSON.stringify(own)) return null;
  const [gone, added] = [without(trained, own), without(own, trained)];
  const parts = [
    ...(gone.length > 0 ? [`missing here: ${named(gone)}`] : []),
    ...(added.length > 0 ? [`new: ${named(added)}`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : 'in another order';
}

function without(all: readonly string[], others: readonly string[]): string[] {
  const known = new Set(others);
  return all.filter((one) => !known.has(one));
}

function named(values: readonly string[]): string {
  return `${values.slice(0, MOST_NAMED).join(', ')}${values.length > MOST_NAMED ? ', ...' : ''}`;
}
