/**
 * The `table` job's data: one CSV file. Numbers are standardised, words become an input for each,
 * what is missing is zero, which is the mean, with an input that says so; and one column is what to
 * predict. Rows are read from the file when they are needed.
 */
import type { JobSpec } from '../../spec/job.ts';
import type { TaskName } from '../../spec/measures.ts';
import type { DecimalMark, TablePreview } from '../../spec/preview.ts';
import { LEAST_OWN_SAMPLES, type ColumnFacts, type Moments, type TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { Column, settleMarks } from './columns.ts';
import type { Dataset } from '../dataset.ts';
import { CsvFile } from '../formats/csv.ts';
import { isMarker, nameOfNumber, numberOf } from '../formats/numbers.ts';
import type { ModelSamples } from '../models/customLayers.ts';
import { trainTestSplit, type Split } from '../trainTestSplit.ts';
import { addValue, emptyMoments } from '../moments.ts';
import { checkTable, taskOf } from './tableAgreement.ts';
import { Encoding, TableDataset } from './tableDataset.ts';

/** Rows that a preview shows. */
const SAMPLE_ROWS = 6;
/** Rows that have to have a word, or numbers that a column has to have, for others to be told. */
const LEAST_TOLD = 3;
/** Characters of a word that others are told. */
const LONGEST_TOLD = 64;

export type TableJob = Pick<JobSpec, 'target' | 'task' | 'loss' | 'metrics' | 'seed'>;

/** A table whose columns are known. */
export class Table {
  readonly #csv: CsvFile;
  readonly #columns: readonly Column[];
  readonly #sample: readonly (readonly string[])[];
  readonly #target: Column;
  /** Rows that have a value in the target's column. */
  readonly #labelled: Uint32Array;
  readonly #job: TableJob;
  readonly #learned: readonly Learned[];

  private constructor(
    csv: CsvFile,
    columns: readonly Column[],
    sample: readonly (readonly string[])[],
    target: Column,
    labelled: Uint32Array,
    job: TableJob,
    learned: readonly Learned[],
  ) {
    this.#csv = csv;
    this.#columns = columns;
    this.#sample = sample;
    this.#target = target;
    this.#labelled = labelled;
    this.#job = job;
    this.#learned = learned;
  }

  /**
   * Reads the file twice: which rows are held out is known once all of them are. A target that is
   * not there is no error yet: {@link problem} tells.
   *
   * @throws (rejects) DataError, with the line, if the file is no CSV or damaged.
   */
  static async open(file: File, job: TableJob): Promise<Table> {
    let columns: Column[] = [];
    const sample: (readonly string[])[] = [];
    /**
     * Rows whose target is neither empty nor a marker, and those where it is a marker: what these
     * are is known after the last row.
     */
    const filled: number[] = [];
    const marked: number[] = [];
    const csv = await CsvFile.open(file.name, file, (names) => {
      const target = targetAt(names, job);
      columns = names.map((name, i) => new Column(name, i === target));
      return (fields, row, line) => {
        for (const [i, column] of columns.entries()) column.add(fields[i]!, line);
        if (row < SAMPLE_ROWS) sample.push(fields);
        if (fields[target]!.trim() !== '') (isMarker(fields[target]!) ? marked : filled).push(row);
      };
    });
    settleMarks(columns, csv.separator);
    const target = columns[targetAt(csv.columns, job)]!;
    const labelled = Uint32Array.from(target.kind === 'number' ? filled : [...filled, ...marked]).sort();
    const learned = await readTraining(csv, columns, rowsOf('train', labelled, job));
    return new Table(csv, columns, sample, target, labelled, job, learned);
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
      unlabelled: this.#target.gaps.map(([field, rows]) => ({ field, rows })),
      task,
      classes: task === 'classification' ? [...(this.#classes ?? [])].map(([name, count]) => ({ name, count })) : [],
    };
  }

  /** What a model has to know of the samples, of a table without a {@link problem}. */
  get samples(): ModelSamples {
    const { inputs, classNames, labelUnit } = new Encoding(this.#facts, this.#marks);
    const inputShape = [1, 1, inputs.length] as const;
    return classNames ? { inputShape, classes: classNames.length } : { inputShape, classes: 1, labelUnit: labelUnit! };
  }

  /**
   * What is wrong with the table, or with what is asked of it; `null`: it can be learned from.
   *
   * @param isShard it is one of several: what is wrong whatever the others are.
   */
  problem(isShard = false): DataError | null {
    try {
      this.#check(isShard);
      checkTable(this.#csv.name, this.#facts, this.#job, isShard);
      return null;
    } catch (error) {
      if (error instanceof DataError) return error;
      throw error;
    }
  }

  /**
   * What is known of it beside its rows, for this tab alone.
   *
   * @throws DataError where there is a {@link problem}.
   */
  facts(): TableFacts {
    this.#check(false);
    return this.#facts;
  }

  /**
   * What others are told of it, where each tab has its own: no word that fewer than {@link
   * LEAST_TOLD} training rows have, but for classes, and nothing of columns with few numbers.
   *
   * @throws DataError where there is a {@link problem}.
   */
  ownFacts(): TableFacts {
    const problem = this.problem(true);
    if (problem !== null) throw problem;
    const facts = this.facts();
    const columns = facts.columns.map((column, i): ColumnFacts => {
      if (column.name === facts.target) return column;
      const moments = column.moments.count < LEAST_TOLD ? emptyMoments() : column.moments;
      if (column.kind !== 'category') return { ...column, moments };
      const { rows } = this.#learned[i]!;
      const told = column.values!.filter((value) => rows.get(value)! >= LEAST_TOLD && value.length <= LONGEST_TOLD);
      return told.length === 0 ? { ...column, kind: 'text', values: null } : { ...column, values: told };
    });
    return { ...facts, columns };
  }

  /**
   * The samples to train and to test on. By default means, deviations and categories are those of
   * the whole table's training rows, by exact arithmetic in the file's order: every rank that holds
   * the file has the same.
   *
   * @param agreed of all tables together, of which this is one.
   * @throws (rejects) DataError where there is a {@link problem}.
   */
  async load(agreed?: TableFacts): Promise<{ train: Dataset; test: Dataset }> {
    const facts = agreed ?? this.facts();
    checkTable(agreed ? 'The tables of all tabs' : this.#csv.name, facts, this.#job);
    const encoding = new Encoding(facts, this.#marks);
    const digest = hashState([new TextEncoder().encode(JSON.stringify([this.preview, facts]))]);
    return {
      train: new TableDataset(this.#csv, rowsOf('train', this.#labelled, this.#job), encoding, digest),
      test: new TableDataset(this.#csv, rowsOf('test', this.#labelled, this.#job), encoding, digest),
    };
  }

  get #facts(): TableFacts {
    const classes = this.#task === 'regression' ? null : this.#classes;
    const columns = this.#columns.map((column, i): ColumnFacts => {
      const { name, kind, mark } = column;
      const { rows, hasGaps, moments } = this.#learned[i]!;
      const words = kind === 'category' ? [...rows.keys()].sort() : null;
      // A class that only held-out rows have is told right or wrong, too.
      const values = column === this.#target ? classes && [...classes.keys()] : words;
      return { name, kind, mark, values, isMissing: hasGaps, moments };
    });
    return { kind: 'table', columns, target: this.#target.name, task: this.#task };
  }

  /**
   * The target's values with their rows, in the order of their code units, where there are not too
   * many: of numbers 1 is 1.0.
   */
  get #classes(): Map<string, number> | null {
    const { kind, mark, values } = this.#target;
    if (values === null) return null;
    const rows = new Map<string, number>();
    for (const [value, count] of values) {
      const name = kind === 'number' ? nameOfNumber(value, mark ?? 'point') : value;
      rows.set(name, (rows.get(name) ?? 0) + count);
    }
    return new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** How each column's numbers are read: without marks, either will do. */
  get #marks(): DecimalMark[] {
    return this.#columns.map(({ mark }) => mark ?? 'point');
  }

  /** `null` where the target is neither. */
  get #task(): TaskName | null {
    const classes = this.#classes;
    return taskOf({ kind: this.#target.kind, values: classes && [...classes.keys()] }, this.#job);
  }

  /** What is wrong whatever other tables there are. */
  #check(isShard: boolean): void {
    const { name } = this.#csv;
    const { target } = this.#job;
    if (target !== null && target !== this.#target.name) {
      const names = this.#columns.map((column) => column.name).join(', ');
      const advice = this.#csv.hasHeader
        ? `Choose one of ${names}.`
        : `Line 1 holds data and no names: add a line of names above it, or choose one of ${names}.`;
      throw new DataError(`${name}, line 1: there is no column ${JSON.stringify(target)}. ${advice}`);
    }
    if (this.#columns.length === 1) {
      throw new DataError(
        `${name}, line 1: there is one column only. Separate columns by a comma, a semicolon, a tab or |.`,
      );
    }
    for (const one of this.#columns) one.check(name);
    const rows = this.#labelled.length;
    const least = isShard ? LEAST_OWN_SAMPLES : 2;
    // Of one table, that the column is empty says more.
    if ((isShard || this.#target.kind !== 'empty') && rows < least)
      throw new DataError(
        `${name}: ${rows === 1 ? '1 row is' : `${rows} rows are`} too few to train and to test on${isShard ? `, where ${least} are asked of each tab` : ''}. Add rows.`,
      );
  }
}

/** Facts of a column's training rows. */
interface Learned {
  /** Mean and deviation of its numbers. */
  moments: Moments;
  /** Rows by word, in a category. */
  rows: Map<string, number>;
  hasGaps: boolean;
}

async function readTraining(csv: CsvFile, columns: readonly Column[], rows: Uint32Array): Promise<Learned[]> {
  const learned = columns.map((): Learned => ({ moments: emptyMoments(), rows: new Map(), hasGaps: false }));
  const readers = columns.map(({ kind, mark }, i): ((field: string) => void) => {
    const one = learned[i]!;
    return (field) => {
      const word = field.trim();
      const number = kind === 'number' ? numberOf(word, mark ?? 'point') : null;
      if (number !== null) addValue(one.moments, number);
      else if (word === '' || kind === 'number' || kind === 'empty') one.hasGaps = true;
      else if (kind === 'category') one.rows.set(word, (one.rows.get(word) ?? 0) + 1);
    };
  });
  let next = 0;
  await csv.scan((fields, row) => {
    if (rows[next] !== row) return;
    next++;
    for (const [i, read] of readers.entries()) read(fields[i]!);
  });
  return learned;
}

function rowsOf(part: keyof Split, labelled: Uint32Array, { seed }: TableJob): Uint32Array {
  return trainTestSplit(labelled.length, seed)[part].map((i) => labelled[i]!);
}

/** @throws DataError unless there is one. */
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
  throw new DataError(`A table is one CSV file, and ${found}. Choose one.`);
}

/** The last column where the job names none, or one that is not there. */
function targetAt(names: readonly string[], { target }: TableJob): number {
  const at = target === null ? -1 : names.indexOf(target);
  return at === -1 ? names.length - 1 : at;
}
