/**
 * The `table` job's data: one CSV file. Numbers are standardised, words become an input for each, what is missing is zero, which is the
 * mean, with an input that says so; and one column is what to predict. Rows are read from the file when they are needed.
 */
import type { JobSpec, TaskName } from '../protocol/job.ts';
import type { TablePreview } from '../protocol/preview.ts';
import { DataError } from '../util/errors.ts';
import { hashState } from '../util/hash.ts';
import { Column, isMissing, MAX_CATEGORIES } from './columns.ts';
import { checkRead, type Dataset, type Labels } from './dataset.ts';
import { CsvFile } from './formats/csv.ts';
import { splitOf } from './split.ts';

/** With more different numbers than this, a target is an amount and no class. */
const MAX_NUMBERED_CLASSES = 10;
/** Inputs of one sample: a first layer of 64 units has 4 MB then. */
const MAX_INPUTS = 16_384;
/** Rows that a preview shows. */
const SAMPLE_ROWS = 6;

export type TableJob = Pick<JobSpec, 'target' | 'task' | 'seed'>;

/** Mean and deviation of a column's numbers. */
interface Scale {
  mean: number;
  /** 0 where all are the same. */
  deviation: number;
}

/** A table whose columns are known. */
export class Table {
  readonly #csv: CsvFile;
  readonly #columns: readonly Column[];
  readonly #sample: readonly (readonly string[])[];
  readonly #target: Column;
  /** Rows that have a value in the target's column. */
  readonly #labelled: Uint32Array;
  readonly #job: TableJob;

  private constructor(
    csv: CsvFile,
    columns: readonly Column[],
    sample: readonly (readonly string[])[],
    target: Column,
    labelled: Uint32Array,
    job: TableJob,
  ) {
    this.#csv = csv;
    this.#columns = columns;
    this.#sample = sample;
    this.#target = target;
    this.#labelled = labelled;
    this.#job = job;
  }

  /**
   * Reads the file once. A target that is not there is no error yet: {@link problem} tells.
   *
   * @throws (rejects) DataError, with the line, if the file is no CSV or damaged.
   */
  static async open(file: File, job: TableJob): Promise<Table> {
    let columns: Column[] = [];
    const sample: (readonly string[])[] = [];
    const labelled: number[] = [];
    const csv = await CsvFile.open(file.name, file, (names) => {
      columns = names.map((name) => new Column(name));
      const target = targetAt(names, job);
      return (fields, row, line) => {
        for (const [i, column] of columns.entries()) column.add(fields[i]!, line);
        if (row < SAMPLE_ROWS) sample.push(fields);
        if (!isMissing(fields[target]!)) labelled.push(row);
      };
    });
    return new Table(csv, columns, sample, columns[targetAt(csv.columns, job)]!, Uint32Array.from(labelled), job);
  }

  get preview(): TablePreview {
    const task = this.#task;
    return {
      kind: 'table',
      rows: this.#csv.rows,
      columns: this.#columns.map(({ preview }) => preview),
      sample: this.#sample.map((fields) => [...fields]),
      target: this.#target.name,
      task,
      classes: task === 'classification' ? (this.#target.values ?? []).map(([name, count]) => ({ name, count })) : [],
    };
  }

  /** What is wrong with the table, or with what is asked of it; `null`: it can be learned from. */
  get problem(): DataError | null {
    try {
      this.#check();
      return null;
    } catch (error) {
      if (error instanceof DataError) return error;
      throw error;
    }
  }

  /**
   * The samples to train and to test on. Means, deviations and categories are those of the whole table's training rows, by exact
   * arithmetic in the file's order: every rank that holds the file has the same.
   *
   * @throws (rejects) DataError: {@link problem}.
   */
  async load(): Promise<{ train: Dataset; test: Dataset }> {
    this.#check();
    const target = this.#columns.indexOf(this.#target);
    const task = this.#task!;
    const { train, test } = splitOf(this.#labelled.length, this.#job.seed);
    const trained = train.map((i) => this.#labelled[i]!);
    const scales = await this.#scales(trained);
    const inputs = this.#columns.flatMap((column, i) => (i === target ? [] : inputsOf(column, i, scales[i]!)));
    if (inputs.length > MAX_INPUTS) {
      throw new DataError(
        `${this.#csv.name}, line 1: the columns make ${inputs.length} inputs, and at most ${MAX_INPUTS} can be learned from. Leave ` +
          'columns out.',
      );
    }
    const encode = { inputs, target, label: labelOf(this.#target, task, scales[target]!) };
    const classNames = task === 'classification' ? this.#target.values!.map(([value]) => value) : undefined;
    const what = {
      classes: classNames?.length ?? 1,
      ...(classNames && { classNames }),
      ...(task === 'regression' && { labelUnit: scales[target]!.deviation }),
      digest: hashState([new TextEncoder().encode(JSON.stringify([this.preview, scales]))]),
    };
    const held = test.map((i) => this.#labelled[i]!);
    return {
      train: new TableDataset(this.#csv, trained, encode, what),
      test: new TableDataset(this.#csv, held, encode, what),
    };
  }

  /** `null` where the target is neither. */
  get #task(): TaskName | null {
    const { kind, values } = this.#target;
    if (this.#job.task !== null) return this.#job.task;
    if (kind === 'number')
      return values !== null && values.length <= MAX_NUMBERED_CLASSES ? 'classification' : 'regression';
    return kind === 'category' ? 'classification' : null;
  }

  #check(): void {
    const { name } = this.#csv;
    const { target, task } = this.#job;
    const fail = (what: string): never => {
      throw new DataError(`${name}${what}`);
    };
    if (target !== null && target !== this.#target.name) {
      const names = this.#columns.map((column) => column.name).join(', ');
      return fail(`, line 1: there is no column ${JSON.stringify(target)}. Choose one of ${names}.`);
    }
    const column = `column ${JSON.stringify(this.#target.name)}`;
    for (const one of this.#columns) one.check(name);
    if (task === 'regression' && this.#target.kind !== 'number') {
      return fail(
        `: ${column} is not of numbers, and a regression predicts a number. Choose classification, or another column.`,
      );
    }
    if (this.#target.kind === 'empty') return fail(`: ${column} is empty. Choose another column to predict.`);
    if (this.#task !== 'regression' && this.#target.values === null) {
      return fail(
        `: ${column} has more than ${MAX_CATEGORIES} different values, too many for classes. Choose another column to predict.`,
      );
    }
    if (this.#target.values?.length === 1) {
      return fail(`: ${column} says the same in every row. Choose another column to predict.`);
    }
    if (this.#labelled.length < 2)
      return fail(`: ${this.#labelled.length} rows are too few to train and to test on. Add rows.`);
    if (!this.#columns.some((one) => one !== this.#target && isInput(one))) {
      return fail(`, line 1: no column is left to predict ${column} from. Add columns of numbers or of categories.`);
    }
  }

  /** Of each column of numbers, over `rows` (Welford, Note on a method for calculating corrected sums of squares, 1962). */
  async #scales(rows: Uint32Array): Promise<Scale[]> {
    const counts = this.#columns.map(() => ({ count: 0, mean: 0, squares: 0 }));
    let next = 0;
    await this.#csv.scan((fields, row) => {
      if (rows[next] !== row) return;
      next++;
      for (const [i, column] of this.#columns.entries()) {
        if (column.kind !== 'number' || isMissing(fields[i]!)) continue;
        const value = Number(fields[i]);
        const sums = counts[i]!;
        sums.count++;
        const distance = value - sums.mean;
        sums.mean += distance / sums.count;
        sums.squares += distance * (value - sums.mean);
      }
    });
    return counts.map(({ count, mean, squares }) => ({
      mean,
      deviation: count === 0 ? 0 : Math.sqrt(squares / count),
    }));
  }
}

/** The last column where the job names none, or one that is not there. */
function targetAt(names: readonly string[], { target }: TableJob): number {
  const at = target === null ? -1 : names.indexOf(target);
  return at === -1 ? names.length - 1 : at;
}

function isInput({ kind }: Column): boolean {
  return kind === 'number' || kind === 'category';
}

/** One input of a sample, from the fields of its row. */
type Input = (fields: readonly string[]) => number;

function inputsOf(column: Column, at: number, scale: Scale): Input[] {
  if (column.kind === 'number') {
    const number: Input = (fields) => (isMissing(fields[at]!) ? 0 : standard(Number(fields[at]), scale));
    return column.missing === 0 ? [number] : [number, (fields) => Number(isMissing(fields[at]!))];
  }
  if (column.kind === 'category')
    return column.values!.map(
      ([value]) =>
        (fields) =>
          Number(fields[at]!.trim() === value),
    );
  return [];
}

function standard(value: number, { mean, deviation }: Scale): number {
  return deviation === 0 ? 0 : (value - mean) / deviation;
}

function labelOf(column: Column, task: TaskName, scale: Scale): (field: string) => number {
  if (task === 'regression') return (field) => standard(Number(field), scale);
  const places = new Map(column.values!.map(([value], i) => [value, i]));
  return (field) => places.get(field.trim())!;
}

interface Encoding {
  inputs: readonly Input[];
  /** The target's column. */
  target: number;
  label: (field: string) => number;
}

/** Rows of a table as samples. */
class TableDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [1, 1, number];
  readonly classes: number;
  readonly classNames?: readonly string[];
  readonly labelUnit?: number;
  readonly digest: string;
  readonly #csv: CsvFile;
  readonly #rows: Uint32Array;
  readonly #encoding: Encoding;

  constructor(
    csv: CsvFile,
    rows: Uint32Array,
    encoding: Encoding,
    what: Pick<Dataset, 'classes' | 'classNames' | 'labelUnit'> & { digest: string },
  ) {
    this.size = rows.length;
    this.inputShape = [1, 1, encoding.inputs.length];
    this.classes = what.classes;
    if (what.classNames !== undefined) this.classNames = what.classNames;
    if (what.labelUnit !== undefined) this.labelUnit = what.labelUnit;
    this.digest = what.digest;
    this.#csv = csv;
    this.#rows = rows;
    this.#encoding = encoding;
  }

  async read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): Promise<void> {
    checkRead(this, indices, inputs, labels);
    const { inputs: encode, target, label } = this.#encoding;
    const rows = await Promise.all(Array.from(indices, (index) => this.#csv.row(this.#rows[index]!)));
    for (const [i, fields] of rows.entries()) {
      for (const [k, input] of encode.entries()) inputs[i * encode.length + k] = input(fields);
      labels[i] = label(fields[target]!);
    }
  }
}
