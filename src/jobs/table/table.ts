/**
 * The data of the job `table`: one file (CSV, Parquet or xlsx) with a target column. Numbers are
 * standardized, and each word of a category becomes an input. A missing number becomes 0, which is
 * the mean, and an additional input says that it is missing. The file is read once; then its values
 * are in memory.
 */
import type { JobSpec } from '../../spec/job.ts';
import type { TaskName } from '../../spec/measures.ts';
import type { DataNote, DecimalMark, TablePreview } from '../../spec/preview.ts';
import { LEAST_OWN_SAMPLES, type ColumnFacts, type Moments, type TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { TableColumn, settleDecimalMarks } from './columns.ts';
import type { Dataset } from '../dataset.ts';
import type { LoadDataOptions } from '../fileSource.ts';
import { readCsv, type CsvFacts } from '../../formats/csv.ts';
import type { CsvRecords } from '../../formats/csvRecords.ts';
import { csvFieldOfValue, PARQUET_MAGIC_BYTES, readParquet } from '../../formats/parquet.ts';
import { readByteRange } from '../../formats/partialFile.ts';
import { isMissingValueMarker } from '../../formats/missing.ts';
import { convertFileToUtf8 } from '../../formats/textEncoding.ts';
import { isWorkbook, workbookToCsv } from '../../formats/xlsx.ts';
import { canonicalNumberText, parseNumberField } from '../../formats/numbers.ts';
import type { SampleProperties } from '../models/customLayers.ts';
import {
  checkClassesCanSplit,
  notesOnUntestedClasses,
  trainTestSplit,
  type TrainTestSplit,
} from '../trainTestSplit.ts';
import { addToMoments, emptyMoments } from '../../formats/moments.ts';
import { checkTableFacts, tableTaskForTarget } from './tableAgreement.ts';
import { ColumnReader } from './columnReader.ts';
import { NUMBER_CELL_CODE, PackedRows, type PackedRow } from './packedRows.ts';
import { TableEncoding, numbersOfColumnTexts, TableDataset, type ColumnTexts } from './tableDataset.ts';

/** Number of rows in a preview. */
const SAMPLE_ROWS = 6;
/**
 * Words of input columns that are in fewer rows than this are not sent to other tabs. The same
 * applies to the moments of a column with fewer numbers than this.
 */
const MIN_SHARED_ROWS = 3;
/** Maximum length of a word that is sent to other tabs. */
const MAX_SHARED_LENGTH = 64;

export type TableJob = Pick<JobSpec, 'target' | 'task' | 'loss' | 'metrics' | 'seed'> &
  Partial<Pick<JobSpec, 'encoding'>>;

/** A table and the facts about its columns. */
export class OpenedTable {
  readonly #read: ReadTable;

  private constructor(read: ReadTable) {
    this.#read = read;
  }

  /**
   * Opens a table. It reads the file once. A missing target column is reported by {@link problem}
   * instead of an error.
   *
   * @param onprogress receives the bytes that are read.
   * @throws (rejects) DataError, which names the line, if the file is not CSV or is damaged.
   */
  static async open(given: File, job: TableJob, onprogress?: LoadDataOptions['onprogress']): Promise<OpenedTable> {
    const reading = new TableReading(given.name, job);
    const { csv, notes } = (await isParquetFile(given))
      ? { csv: await readColumns(given, reading, onprogress), notes: [] }
      : await readText(given, reading, job, onprogress);
    const read = reading.end(csv.separator ?? ',');
    const labelled = await labelledRows(read, csv.rows);
    const split = splitOf(labelled, read.target, job);
    const training = await readTraining(read, split.train);
    return new OpenedTable({ name: given.name, csv, ...read, split, job, training, notes });
  }

  get preview(): TablePreview {
    const { csv, columns, sample, target } = this.#read;
    const task = this.#task;
    return {
      kind: 'table',
      rows: csv.rows,
      hasHeader: csv.hasHeader,
      columns: columns.map(({ preview }) => preview),
      sample: sample.map((fields) => [...fields]),
      target: target.name,
      task,
      classes: task === 'classification' ? [...(this.#classes ?? [])].map(([name, count]) => ({ name, count })) : [],
      notes: this.#notes,
    };
  }

  get #notes(): DataNote[] {
    const { csv, columns, target, training, notes } = this.#read;
    const { rowName, rows } = csv;
    const { name, gaps } = target;
    return [
      ...notes,
      ...(csv.hasHeader ? [] : [{ kind: 'no-header', count: 1, name: '', example: '' } as const]),
      ...(rowName === null ? [] : [{ kind: 'row-names', count: rows, name: '', example: rowName } as const]),
      ...gaps.map(([example, count]): DataNote => ({ kind: 'rows-unlabelled', count, name, example })),
      ...columns.flatMap((column, i) => [...column.notes, ...training[i]!.suspects]),
      ...notesOnUntestedClasses(this.#task === 'classification' ? [...(this.#classes ?? [])] : []),
    ];
  }

  /**
   * The properties of samples that a model depends on. The table must not have a {@link problem}.
   */
  get samples(): SampleProperties {
    const { width, classNames, labelUnit } = new TableEncoding(this.#facts, this.#read.texts);
    const inputShape = [1, 1, width] as const;
    return classNames ? { inputShape, classes: classNames.length } : { inputShape, classes: 1, labelUnit: labelUnit! };
  }

  /**
   * Returns a problem of the table or of the job's fields, or `null` if a model can be trained on
   * the table.
   *
   * @param isShard whether the table is the shard of one tab. If so, problems that the tables of
   *   other tabs may solve are not reported.
   */
  problem(isShard = false): DataError | null {
    const { name, job, target } = this.#read;
    try {
      this.#check(isShard);
      checkTableFacts(name, this.#facts, job, isShard);
      if (!isShard && this.#task === 'classification') {
        checkClassesCanSplit(`${name}, column ${JSON.stringify(target.name)}`, [...this.#classes!.values()]);
      }
      return null;
    } catch (error) {
      if (error instanceof DataError) return error;
      throw error;
    }
  }

  /**
   * Returns the facts of this table alone.
   *
   * @throws DataError if there is a {@link problem}.
   */
  facts(): TableFacts {
    this.#check(false);
    return this.#facts;
  }

  /**
   * Returns the facts that other tabs receive about this table. All classes of the target are
   * included. A word of another column is left out if it is too long or is in fewer than {@link
   * MIN_SHARED_ROWS} training rows. The moments of a column are left out if fewer than {@link
   * MIN_SHARED_ROWS} training rows have a number.
   *
   * @throws DataError if there is a {@link problem}.
   */
  ownFacts(): TableFacts {
    const problem = this.problem(true);
    if (problem !== null) throw problem;
    const facts = this.facts();
    const columns = facts.columns.map((column, i): ColumnFacts => {
      if (column.name === facts.target) return column;
      const moments = column.moments.count < MIN_SHARED_ROWS ? emptyMoments() : column.moments;
      if (column.kind !== 'category') return { ...column, moments };
      const { rows } = this.#read.training[i]!;
      const shared = column.values!.filter(
        (value) => rows.get(value)! >= MIN_SHARED_ROWS && value.length <= MAX_SHARED_LENGTH,
      );
      return shared.length === 0 ? { ...column, kind: 'text', values: null } : { ...column, values: shared };
    });
    return { ...facts, columns };
  }

  /**
   * Creates the training and test samples, and all of them in the order of the file. By default,
   * the means, deviations and categories are those of the training rows of this table. They are
   * computed in the order of the file, so all ranks with the same file get exactly the same values.
   *
   * @param agreed the merged facts of all tabs' tables. If given, they replace the facts of this
   *   table.
   * @throws (rejects) DataError if there is a {@link problem}.
   */
  async load(agreed?: TableFacts): Promise<{ train: Dataset; test: Dataset; readonly all: Dataset }> {
    const problem = agreed ? null : this.problem();
    if (problem !== null) throw problem;
    const facts = agreed ?? this.#facts;
    if (agreed) checkTableFacts('The tables of all tabs', facts, this.#read.job);
    const { texts, packed, split } = this.#read;
    const encoding = new TableEncoding(facts, texts);
    const digest = hashOfArrays([new TextEncoder().encode(JSON.stringify([this.preview, facts]))]);
    const samplesOf = (rows: Uint32Array): Dataset => new TableDataset(packed, rows, encoding, digest);
    const { train, test } = split;
    return {
      train: samplesOf(train),
      test: samplesOf(test),
      get all() {
        const rows = new Uint32Array(train.length + test.length);
        rows.set(train);
        rows.set(test, train.length);
        return samplesOf(rows.sort());
      },
    };
  }

  get #facts(): TableFacts {
    const classes = this.#task === 'regression' ? null : this.#classes;
    const { target, training } = this.#read;
    const columns = this.#read.columns.map((column, i): ColumnFacts => {
      const { name, kind, mark } = column;
      const { rows, hasGaps, moments } = training[i]!;
      const words = kind === 'category' ? [...rows.keys()].sort() : null;
      // For the target, the values include classes that only occur in held-out rows, because these
      // rows are evaluated, too.
      const values = column === target ? classes && [...classes.keys()] : words;
      const unit = column.unit === '' ? {} : { unit: column.unit };
      return { name, kind, mark, ...unit, values, isMissing: hasGaps, moments };
    });
    return { kind: 'table', columns, target: target.name, task: this.#task };
  }

  /**
   * The values of the target, each with its number of rows, sorted by code units. `null` if there
   * are too many values. The numbers 1 and 1.0 are the same value.
   */
  get #classes(): Map<string, number> | null {
    return classesOf(this.#read.target);
  }

  /**
   * The task that follows from the job and the target. `null` if the target is neither a class nor
   * an amount.
   */
  get #task(): TaskName | null {
    return taskOfColumn(this.#read.target, this.#read.job);
  }

  /** Checks everything that does not depend on the tables of other tabs. */
  #check(isShard: boolean): void {
    const { name, csv, columns, target, split, job } = this.#read;
    if (job.target !== null && job.target !== target.name) {
      const names = columns.map((column) => column.name).join(', ');
      const advice = csv.hasHeader
        ? `Choose one of ${names}.`
        : `Line 1 contains data instead of column names. Add a line of names above it, or choose one of ${names}.`;
      throw new DataError(`${name}, line 1: there is no column ${JSON.stringify(job.target)}. ${advice}`);
    }
    if (columns.length === 1) {
      throw new DataError(
        `${name}, line 1: there is only one column. Separate columns by a comma, a semicolon, a tab or |.`,
      );
    }
    for (const one of columns) one.check(name, csv.separator === null ? 'row' : 'line');
    const rows = split.train.length + split.test.length;
    const least = isShard ? LEAST_OWN_SAMPLES : 2;
    // If the target column of a single table is empty, `checkTableFacts` throws a more helpful
    // error.
    if ((isShard || target.kind !== 'empty') && rows < least)
      throw new DataError(
        `${name}: ${rows === 1 ? '1 row is' : `${rows} rows are`} too few for training and evaluation${isShard ? `. Each tab needs at least ${least}` : ''}. Add rows.`,
      );
  }
}

/** A table that is read, and whose columns' kinds are known. */
interface ReadColumns {
  columns: readonly TableColumn[];
  texts: readonly ColumnTexts[];
  packed: PackedRows;
  sample: readonly (readonly string[])[];
  target: TableColumn;
}

interface ReadTable extends ReadColumns {
  name: string;
  csv: Opened;
  /** The rows with a value in the target column. */
  split: TrainTestSplit;
  job: TableJob;
  /** For each column, its facts. */
  training: readonly TrainingFacts[];
  /** Notes about the file. */
  notes: readonly DataNote[];
}

/** The facts about a table except its columns. Files without lines have no separator. */
type Opened = Omit<CsvFacts, 'separator'> & { separator: string | null };

type OnProgress = LoadDataOptions['onprogress'];

export async function isParquetFile(file: File): Promise<boolean> {
  const { length } = PARQUET_MAGIC_BYTES;
  const ends = await Promise.all(
    [0, Math.max(0, file.size - length)].map((from) => readByteRange(file.name, file, from, from + length)),
  );
  return ends.every((bytes) => String.fromCharCode(...bytes) === PARQUET_MAGIC_BYTES);
}

async function readColumns(file: File, reading: TableReading, onprogress: OnProgress): Promise<Opened> {
  const { columns, rows } = await readParquet(file.name, file, {
    begin: (names) => reading.beginColumns(names),
    onbytes: (done) => onprogress?.({ unit: 'bytes read', done, total: file.size }),
  });
  return { columns, rows, hasHeader: true, separator: null, rowName: null };
}

async function readText(
  given: File,
  reading: TableReading,
  job: TableJob,
  onprogress: OnProgress,
): Promise<{ csv: Opened; notes: DataNote[] }> {
  const notes: DataNote[] = [];
  const book = (await isWorkbook(given)) ? await workbookToCsv(given) : null;
  if (book !== null && book.others.length > 0) {
    notes.push({
      kind: 'sheets-left-out',
      count: book.others.length,
      name: book.sheet,
      example: book.others.join(', '),
    });
  }
  const { file, isUtf16 } =
    book === null ? await convertFileToUtf8(given, job.encoding ?? 'utf-8') : { file: book.csv, isUtf16: false };
  if (isUtf16) notes.push({ kind: 'utf-16', count: 1, name: '', example: given.name });
  const csv = await readCsv(file.name, file, {
    begin: (names) => reading.begin(names),
    onbytes: (done) => onprogress?.({ unit: 'bytes read', done, total: file.size }),
  });
  return { csv, notes };
}

class TableReading {
  readonly #name: string;
  readonly #job: TableJob;
  #target = 0;
  #readers: ColumnReader[] = [];
  #packed!: PackedRows;
  readonly #sample: (readonly string[])[] = [];

  constructor(name: string, job: TableJob) {
    this.#name = name;
    this.#job = job;
  }

  #start(names: readonly string[]): { packed: PackedRows; readers: readonly ColumnReader[] } {
    this.#target = targetAt(names, this.#job);
    const packed = new PackedRows(this.#name, names.length);
    const readers = names.map(
      (name, i) => new ColumnReader(new TableColumn(name, i === this.#target), packed.cells[i]!),
    );
    this.#packed = packed;
    this.#readers = readers;
    return { packed, readers };
  }

  /** Begins to read a file whose format has types. */
  beginColumns(names: readonly string[]): (columns: readonly ArrayLike<unknown>[], at: number, row: number) => void {
    const { packed, readers } = this.#start(names);
    return (columns, at, row) => {
      if (row < SAMPLE_ROWS) this.#sample.push(columns.map((values) => csvFieldOfValue(values[at])));
      for (let i = 0; i < readers.length; i++) readers[i]!.readValue(columns[i]![at], row + 1, packed.next);
      packed.endRow(this.#excludes);
    };
  }

  begin(names: readonly string[]): (record: CsvRecords, row: number) => void {
    const { packed, readers } = this.#start(names);
    return (record, row) => {
      if (row < SAMPLE_ROWS) this.#sample.push(record.fields().slice(0, names.length));
      for (let i = 0; i < readers.length; i++) readers[i]!.read(record, i, packed.next);
      packed.endRow(this.#excludes);
    };
  }

  end(separator: string): ReadColumns {
    for (const reader of this.#readers) reader.count();
    const columns = this.#readers.map(({ column }) => column);
    settleDecimalMarks(columns, separator);
    // If no number of a column has a decimal mark, the result is the same with either mark.
    const texts = this.#readers.map(({ column, texts: own }) => ({ texts: own, mark: column.mark ?? 'point' }));
    this.#packed.end(
      this.#excludes,
      texts.map(({ mark }) => mark),
    );
    return { columns, texts, packed: this.#packed, sample: this.#sample, target: columns[this.#target]! };
  }

  readonly #excludes = (i: number, mark: DecimalMark): boolean => this.#readers[i]!.column.excludes(mark);
}

/** Rows with a value in the target column, and for each of them the text of the target. */
interface Labelled {
  rows: Uint32Array;
  /** For each of the rows, the code of its target. */
  codes: Uint16Array;
  texts: readonly (string | null)[];
}

/** Markers of missing values are values of a target column of words. */
async function labelledRows({ columns, texts, packed, target }: ReadColumns, count: number): Promise<Labelled> {
  const at = columns.indexOf(target);
  const own = texts[at]!.texts;
  const isGap = own.map(
    (text) => text === '' || (text !== null && target.kind === 'number' && isMissingValueMarker(text)),
  );
  const [rows, codes] = [new Uint32Array(count), new Uint16Array(count)];
  let [row, next] = [0, 0];
  await packed.scanCodes(at, (code) => {
    if (!isGap[code]) {
      rows[next] = row;
      codes[next++] = code;
    }
    row++;
  });
  return { rows: rows.subarray(0, next), codes: codes.subarray(0, next), texts: own };
}

/** Facts of a column, computed from training rows. */
interface TrainingFacts {
  /** Count, mean and deviation of the column's numbers. */
  moments: Moments;
  /** For a category, the number of rows with each word. */
  rows: Map<string, number>;
  hasGaps: boolean;
  /** Notes about numbers that may stand for missing values. */
  suspects: readonly DataNote[];
}

async function readTraining({ columns, texts, packed }: ReadColumns, rows: Uint32Array): Promise<TrainingFacts[]> {
  const training = columns.map((): TrainingFacts => ({
    moments: emptyMoments(),
    rows: new Map(),
    hasGaps: false,
    suspects: [],
  }));
  const ranges = columns.map((column) => (column.suspects.length === 0 ? null : new OtherNumbers(column)));
  const counts = texts.map(({ texts: own }) => new Uint32Array(own.length));
  const readers = columns.map(({ kind }, i): ((row: PackedRow) => void) => {
    const count = counts[i]!;
    if (kind !== 'number') return ({ codes }) => void count[codes[i]!]!++;
    const one = training[i]!;
    const range = ranges[i];
    const numbers = numbersOfColumnTexts(texts[i]!);
    return ({ codes, numbers: own }) => {
      const number = codes[i] === NUMBER_CELL_CODE ? own[i]! : numbers[codes[i]!]!;
      if (Number.isNaN(number)) one.hasGaps = true;
      else {
        addToMoments(one.moments, number);
        range?.add(number);
      }
    };
  });
  await packed.scan(rows, (row) => {
    for (let i = 0; i < readers.length; i++) readers[i]!(row);
  });
  for (const [i, { kind }] of columns.entries()) {
    const { texts: own } = texts[i]!;
    const one = training[i]!;
    for (const [code, times] of counts[i]!.entries()) {
      if (times === 0) continue;
      if (own[code] === '' || kind === 'empty') one.hasGaps = true;
      else if (kind === 'category') one.rows.set(own[code]!, times);
    }
  }
  return training.map((one, i) => ({ ...one, suspects: ranges[i]?.notes ?? [] }));
}

/** The range of a column's numbers, except those that may stand for missing values. */
class OtherNumbers {
  readonly #column: TableColumn;
  /** The numbers that may stand for missing values. */
  readonly #suspects: ReadonlyMap<number, readonly [text: string, rows: number]>;
  #least = Infinity;
  #most = -Infinity;

  constructor(column: TableColumn) {
    this.#column = column;
    const { suspects, mark } = column;
    this.#suspects = new Map(suspects.map((one) => [parseNumberField(one[0], mark ?? 'point')!, one]));
  }

  add(number: number): void {
    if (this.#suspects.has(number)) return;
    this.#least = Math.min(this.#least, number);
    this.#most = Math.max(this.#most, number);
  }

  /**
   * Notes about numbers that are far from all other numbers, or that are the only negative ones.
   */
  get notes(): DataNote[] {
    const [least, most] = [this.#least, this.#most];
    const width = most - least;
    const isOdd = (value: number): boolean => (value < 0 ? least >= 0 || value < least - width : value > most + width);
    return [...this.#suspects].flatMap(([value, [example, count]]) =>
      least <= most && isOdd(value)
        ? [{ kind: 'maybe-missing', count, name: this.#column.name, example } as const]
        : [],
    );
  }
}

function classesOf({ kind, mark, values }: TableColumn): Map<string, number> | null {
  if (values === null) return null;
  const rows = new Map<string, number>();
  for (const [value, count] of values) {
    const name = classNameOf(value, { kind, mark });
    rows.set(name, (rows.get(name) ?? 0) + count);
  }
  return new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function classNameOf(value: string, { kind, mark }: Pick<TableColumn, 'kind' | 'mark'>): string {
  return kind === 'number' ? canonicalNumberText(value, mark ?? 'point') : value;
}

function taskOfColumn(column: TableColumn, job: TableJob): TaskName | null {
  return tableTaskForTarget(column.kind, classesOf(column), job);
}

/** Splits the labelled rows, each class in the same proportion. */
function splitOf({ rows, codes, texts }: Labelled, target: TableColumn, job: TableJob): TrainTestSplit {
  const classes = taskOfColumn(target, job) === 'classification' ? classesOf(target) : null;
  const names = classes && [...classes.keys()];
  const labels = texts.map((text) => (text === null ? 0 : (names?.indexOf(classNameOf(text, target)) ?? 0)));
  const split = trainTestSplit(
    new Int32Array(codes).map((code) => labels[code]!),
    job.seed,
  );
  return { train: split.train.map((i) => rows[i]!), test: split.test.map((i) => rows[i]!) };
}

/** Returns the only file. @throws DataError unless there is exactly one. */
export function requireSingleFile(files: readonly File[]): File {
  const [file] = files;
  if (file !== undefined && files.length === 1) return file;
  const found =
    files.length === 0
      ? 'there is none'
      : `there are ${files.length}: ${files
          .map(({ name }) => name)
          .slice(0, 4)
          .join(', ')}`;
  throw new DataError(`A table must be one file (CSV, Parquet or xlsx), but ${found}. Choose one file.`);
}

/**
 * Returns the index of the target column. If the job does not name a column, or the table has no
 * such column, this is the last column.
 */
function targetAt(names: readonly string[], { target }: TableJob): number {
  const at = target === null ? -1 : names.indexOf(target);
  return at === -1 ? names.length - 1 : at;
}
