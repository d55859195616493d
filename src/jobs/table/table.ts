/**
 * The data of the job `table`: one CSV file with a target column. Numbers are standardized, and
 * each word of a category becomes an input. A missing number becomes 0, which is the mean, and an
 * additional input says that it is missing. Rows are read from the file on demand.
 */
import type { JobSpec } from '../../spec/job.ts';
import type { TaskName } from '../../spec/measures.ts';
import type { DataNote, DecimalMark, TablePreview } from '../../spec/preview.ts';
import { LEAST_OWN_SAMPLES, type ColumnFacts, type Moments, type TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { Column, MAX_CATEGORIES, settleMarks } from './columns.ts';
import type { Dataset } from '../dataset.ts';
import type { LoadDataOptions } from '../fileSource.ts';
import { CsvFile } from '../../formats/csv.ts';
import { isMarker } from '../../formats/missing.ts';
import { utf16ToUtf8 } from '../../formats/textEncoding.ts';
import { nameOfNumber, NumberReader, numberOf } from '../../formats/numbers.ts';
import type { ModelSamples } from '../models/customLayers.ts';
import { checkSingles, notHeldOut, trainTestSplit, type Split } from '../trainTestSplit.ts';
import { addValue, emptyMoments } from '../../formats/moments.ts';
import { checkTable, taskOf } from './tableAgreement.ts';
import { Encoding, TableDataset } from './tableDataset.ts';

/** Number of rows in a preview. */
const SAMPLE_ROWS = 6;
/**
 * Words of input columns that are in fewer rows than this are not sent to other tabs. The same
 * applies to the moments of a column with fewer numbers than this.
 */
const MIN_SHARED_ROWS = 3;
/** Maximum length of a word that is sent to other tabs. */
const MAX_SHARED_LENGTH = 64;

export type TableJob = Pick<JobSpec, 'target' | 'task' | 'loss' | 'metrics' | 'seed'>;

/** A table and the facts about its columns. */
export class Table {
  readonly #csv: CsvFile;
  readonly #columns: readonly Column[];
  readonly #sample: readonly (readonly string[])[];
  readonly #target: Column;
  /** The rows with a value in the target column. */
  readonly #split: Split;
  readonly #job: TableJob;
  readonly #training: readonly TrainingFacts[];
  readonly #isUtf16: boolean;

  private constructor(
    csv: CsvFile,
    columns: readonly Column[],
    sample: readonly (readonly string[])[],
    target: Column,
    split: Split,
    job: TableJob,
    training: readonly TrainingFacts[],
    isUtf16: boolean,
  ) {
    this.#csv = csv;
    this.#columns = columns;
    this.#sample = sample;
    this.#target = target;
    this.#split = split;
    this.#job = job;
    this.#training = training;
    this.#isUtf16 = isUtf16;
  }

  /**
   * Opens a table. It reads the file twice, because the split depends on the labels of all rows. A
   * missing target column is reported by {@link problem} instead of an error.
   *
   * @param onprogress receives the bytes that are read. Each of the two passes counts half.
   * @throws (rejects) DataError, which names the line, if the file is not CSV or is damaged.
   */
  static async open(given: File, job: TableJob, onprogress?: LoadDataOptions['onprogress']): Promise<Table> {
    const converted = await utf16ToUtf8(given);
    const file = converted ?? given;
    const total = file.size;
    const report = (bytes: number): void => onprogress?.({ unit: 'bytes read', done: Math.floor(bytes / 2), total });
    let columns: Column[] = [];
    const sample: (readonly string[])[] = [];
    /**
     * Rows whose target is a value, and rows whose target is a marker of a missing value. Only
     * after the last row is it known whether markers are treated as values.
     */
    const filled: number[] = [];
    const marked: number[] = [];
    /** The different targets, and for each row the index of its target among them. */
    const words = new Map<string, number>();
    const wordOf: number[] = [];
    const csv = await CsvFile.open(
      file.name,
      file,
      (names) => {
        const target = targetAt(names, job);
        columns = names.map((name, i) => new Column(name, i === target));
        return (fields, row, line) => {
          for (const [i, column] of columns.entries()) column.add(fields[i]!, line);
          if (row < SAMPLE_ROWS) sample.push(fields);
          const word = fields[target]!.trim();
          if (word !== '') (isMarker(word) ? marked : filled).push(row);
          // Once there are this many different targets, they are not classes.
          if (words.size < 2 * MAX_CATEGORIES && !words.has(word)) words.set(word, words.size);
          wordOf[row] = words.get(word) ?? 0;
        };
      },
      report,
    );
    settleMarks(columns, csv.separator);
    const target = columns[targetAt(csv.columns, job)]!;
    const labelled = Uint32Array.from(target.kind === 'number' ? filled : [...filled, ...marked]).sort();
    const split = splitOf(labelled, target, { words: [...words.keys()], wordOf }, job);
    const training = await readTraining(csv, columns, split.train, (bytes) => report(total + bytes));
    return new Table(csv, columns, sample, target, split, job, training, converted !== null);
  }

  get preview(): TablePreview {
    const task = this.#task;
    return {
      kind: 'table',
      rows: this.#csv.rows,
      hasHeader: this.#csv.hasHeader,
      columns: this.#columns.map(({ preview }) => preview),
      sample: this.#sample.map((fields) => [...fields]),
      target: this.#target.name,
      task,
      classes: task === 'classification' ? [...(this.#classes ?? [])].map(([name, count]) => ({ name, count })) : [],
      notes: this.#notes,
    };
  }

  get #notes(): DataNote[] {
    const { name, gaps } = this.#target;
    const { rowName, rows, name: file } = this.#csv;
    return [
      ...(this.#isUtf16 ? [{ kind: 'utf-16', count: 1, name: '', example: file } as const] : []),
      ...(this.#csv.hasHeader ? [] : [{ kind: 'no-header', count: 1, name: '', example: '' } as const]),
      ...(rowName === null ? [] : [{ kind: 'row-names', count: rows, name: '', example: rowName } as const]),
      ...gaps.map(([example, count]): DataNote => ({ kind: 'rows-unlabelled', count, name, example })),
      ...this.#columns.flatMap((column, i) => [...column.notes, ...this.#training[i]!.suspects]),
      ...notHeldOut(this.#task === 'classification' ? [...(this.#classes ?? [])] : []),
    ];
  }

  /**
   * The properties of samples that a model depends on. The table must not have a {@link problem}.
   */
  get samples(): ModelSamples {
    const { inputs, classNames, labelUnit } = new Encoding(this.#facts, this.#marks);
    const inputShape = [1, 1, inputs.length] as const;
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
    try {
      this.#check(isShard);
      checkTable(this.#csv.name, this.#facts, this.#job, isShard);
      if (!isShard && this.#task === 'classification') {
        checkSingles(`${this.#csv.name}, column ${JSON.stringify(this.#target.name)}`, [...this.#classes!.values()]);
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
      const { rows } = this.#training[i]!;
      const shared = column.values!.filter(
        (value) => rows.get(value)! >= MIN_SHARED_ROWS && value.length <= MAX_SHARED_LENGTH,
      );
      return shared.length === 0 ? { ...column, kind: 'text', values: null } : { ...column, values: shared };
    });
    return { ...facts, columns };
  }

  /**
   * Creates the training and test samples. By default, the means, deviations and categories are
   * those of the training rows of this table. They are computed in the order of the file, so all
   * ranks with the same file get exactly the same values.
   *
   * @param agreed the merged facts of all tabs' tables. If given, they replace the facts of this
   *   table.
   * @throws (rejects) DataError if there is a {@link problem}.
   */
  async load(agreed?: TableFacts): Promise<{ train: Dataset; test: Dataset }> {
    const problem = agreed ? null : this.problem();
    if (problem !== null) throw problem;
    const facts = agreed ?? this.#facts;
    if (agreed) checkTable('The tables of all tabs', facts, this.#job);
    const encoding = new Encoding(facts, this.#marks);
    const digest = hashState([new TextEncoder().encode(JSON.stringify([this.preview, facts]))]);
    return {
      train: new TableDataset(this.#csv, this.#split.train, encoding, digest),
      test: new TableDataset(this.#csv, this.#split.test, encoding, digest),
    };
  }

  get #facts(): TableFacts {
    const classes = this.#task === 'regression' ? null : this.#classes;
    const columns = this.#columns.map((column, i): ColumnFacts => {
      const { name, kind, mark } = column;
      const { rows, hasGaps, moments } = this.#training[i]!;
      const words = kind === 'category' ? [...rows.keys()].sort() : null;
      // For the target, the values include classes that only occur in held-out rows, because these
      // rows are evaluated, too.
      const values = column === this.#target ? classes && [...classes.keys()] : words;
      const unit = column.unit === '' ? {} : { unit: column.unit };
      return { name, kind, mark, ...unit, values, isMissing: hasGaps, moments };
    });
    return { kind: 'table', columns, target: this.#target.name, task: this.#task };
  }

  /**
   * The values of the target, each with its number of rows, sorted by code units. `null` if there
   * are too many values. The numbers 1 and 1.0 are the same value.
   */
  get #classes(): Map<string, number> | null {
    return classesOf(this.#target);
  }

  /**
   * The decimal mark of each column. If no number of a column has one, the result is the same with
   * either mark.
   */
  get #marks(): DecimalMark[] {
    return this.#columns.map(({ mark }) => mark ?? 'point');
  }

  /**
   * The task that follows from the job and the target. `null` if the target is neither a class nor
   * an amount.
   */
  get #task(): TaskName | null {
    return taskOfColumn(this.#target, this.#job);
  }

  /** Checks everything that does not depend on the tables of other tabs. */
  #check(isShard: boolean): void {
    const { name } = this.#csv;
    const { target } = this.#job;
    if (target !== null && target !== this.#target.name) {
      const names = this.#columns.map((column) => column.name).join(', ');
      const advice = this.#csv.hasHeader
        ? `Choose one of ${names}.`
        : `Line 1 contains data instead of column names. Add a line of names above it, or choose one of ${names}.`;
      throw new DataError(`${name}, line 1: there is no column ${JSON.stringify(target)}. ${advice}`);
    }
    if (this.#columns.length === 1) {
      throw new DataError(
        `${name}, line 1: there is only one column. Separate columns by a comma, a semicolon, a tab or |.`,
      );
    }
    for (const one of this.#columns) one.check(name);
    const rows = this.#split.train.length + this.#split.test.length;
    const least = isShard ? LEAST_OWN_SAMPLES : 2;
    // If the target column of a single table is empty, `checkTable` throws a more helpful error.
    if ((isShard || this.#target.kind !== 'empty') && rows < least)
      throw new DataError(
        `${name}: ${rows === 1 ? '1 row is' : `${rows} rows are`} too few for training and evaluation${isShard ? `. Each tab needs at least ${least}` : ''}. Add rows.`,
      );
  }
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

async function readTraining(
  csv: CsvFile,
  columns: readonly Column[],
  rows: Uint32Array,
  onbytes: (bytes: number) => void,
): Promise<TrainingFacts[]> {
  const training = columns.map((): TrainingFacts => ({
    moments: emptyMoments(),
    rows: new Map(),
    hasGaps: false,
    suspects: [],
  }));
  const ranges = columns.map((column) => (column.suspects.length === 0 ? null : new OtherNumbers(column)));
  const readers = columns.map(({ kind, mark }, i): ((field: string) => void) => {
    const one = training[i]!;
    const reader = new NumberReader();
    const range = ranges[i];
    return (field) => {
      const number = kind === 'number' ? reader.number(field, mark ?? 'point') : null;
      const word = number === null ? field.trim() : '';
      if (number !== null) {
        addValue(one.moments, number);
        range?.add(number);
      } else if (word === '' || kind === 'number' || kind === 'empty') one.hasGaps = true;
      else if (kind === 'category') one.rows.set(word, (one.rows.get(word) ?? 0) + 1);
    };
  });
  let next = 0;
  await csv.scan((fields, row) => {
    if (rows[next] !== row) return;
    next++;
    for (const [i, read] of readers.entries()) read(fields[i]!);
  }, onbytes);
  return training.map((one, i) => ({ ...one, suspects: ranges[i]?.notes ?? [] }));
}

/** The range of a column's numbers, except those that may stand for missing values. */
class OtherNumbers {
  readonly #column: Column;
  /** The numbers that may stand for missing values. */
  readonly #suspects: ReadonlyMap<number, readonly [text: string, rows: number]>;
  #least = Infinity;
  #most = -Infinity;

  constructor(column: Column) {
    this.#column = column;
    const { suspects, mark } = column;
    this.#suspects = new Map(suspects.map((one) => [numberOf(one[0], mark ?? 'point')!, one]));
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

function classesOf({ kind, mark, values }: Column): Map<string, number> | null {
  if (values === null) return null;
  const rows = new Map<string, number>();
  for (const [value, count] of values) {
    const name = classNameOf(value, { kind, mark });
    rows.set(name, (rows.get(name) ?? 0) + count);
  }
  return new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function classNameOf(value: string, { kind, mark }: Pick<Column, 'kind' | 'mark'>): string {
  return kind === 'number' ? nameOfNumber(value, mark ?? 'point') : value;
}

function taskOfColumn(column: Column, job: TableJob): TaskName | null {
  return taskOf(column.kind, classesOf(column), job);
}

/**
 * Splits the labelled rows, each class in the same proportion.
 *
 * @param labels the different targets, and for each row the index of its target among them.
 */
function splitOf(
  labelled: Uint32Array,
  target: Column,
  { words, wordOf }: { words: readonly string[]; wordOf: readonly number[] },
  job: TableJob,
): Split {
  const classes = taskOfColumn(target, job) === 'classification' ? classesOf(target) : null;
  const names = classes && [...classes.keys()];
  const labels = words.map((word) => names?.indexOf(classNameOf(word, target)) ?? 0);
  const { train, test } = trainTestSplit(
    labelled.map((row) => labels[wordOf[row]!]!),
    job.seed,
  );
  return { train: train.map((i) => labelled[i]!), test: test.map((i) => labelled[i]!) };
}

/** Returns the only file. @throws DataError unless there is exactly one. */
export function oneTable(files: readonly File[]): File {
  const [file] = files;
  if (file !== undefined && files.length === 1) return file;
  const found =
    files.length === 0
      ? 'there is none'
      : `there are ${files.length}: ${files
          .map(({ name }) => name)
          .slice(0, 4)
          .join(', ')}`;
  throw new DataError(`A table must be one CSV file, but ${found}. Choose one CSV file.`);
}

/**
 * Returns the index of the target column. If the job does not name a column, or the table has no
 * such column, this is the last column.
 */
function targetAt(names: readonly string[], { target }: TableJob): number {
  const at = target === null ? -1 : names.indexOf(target);
  return at === -1 ? names.length - 1 : at;
}
