/** Converts rows of a table to samples. The facts of the columns define the encoding. */
import type { DecimalMark } from '../../spec/preview.ts';
import type { ColumnFacts, Moments, TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { checkRead, type Dataset, type Labels } from '../dataset.ts';
import type { CsvFile } from '../../formats/csv.ts';
import { nameOfNumber, numberOf } from '../../formats/numbers.ts';
import { standardDeviation } from '../../formats/moments.ts';
import { targetOf } from './tableAgreement.ts';

/** Computes one input of a sample from the fields of its row. */
type Input = (fields: readonly string[]) => number;

function inputsOf({ kind, values, isMissing: hasGaps, moments }: ColumnFacts, at: number, mark: DecimalMark): Input[] {
  if (kind === 'number') {
    const standard = standardOf(moments);
    const number: Input = (fields) => {
      const value = numberOf(fields[at]!, mark);
      return value === null ? 0 : standard(value);
    };
    return hasGaps ? [number, (fields) => Number(numberOf(fields[at]!, mark) === null)] : [number];
  }
  if (kind !== 'category') return [];
  return values!.map(
    (value): Input =>
      (fields) =>
        Number(fields[at]!.trim() === value),
  );
}

/** Returns a function that standardizes numbers to mean 0 and standard deviation 1. */
function standardOf(moments: Moments): (value: number) => number {
  const deviation = standardDeviation(moments);
  return (value) => (deviation === 0 ? 0 : (value - moments.mean) / deviation);
}

/** Encodes rows as samples. */
export class Encoding {
  readonly facts: TableFacts;
  readonly inputs: readonly Input[];
  /** Index of the target column. */
  readonly target: number;
  readonly classNames: readonly string[] | null;
  readonly labelUnit: number | null;
  readonly label: (field: string) => number;

  /**
   * @param marks the decimal marks of the columns of this table. They are needed in addition to the
   *   facts, which have no mark for a column if all tables had only integers in it.
   */
  constructor(facts: TableFacts, marks: readonly DecimalMark[]) {
    this.facts = facts;
    const column = targetOf(facts);
    const { kind, values, moments } = column;
    this.target = facts.columns.indexOf(column);
    this.inputs = facts.columns.flatMap((one, i) => (one === column ? [] : inputsOf(one, i, marks[i]!)));
    const isClass = facts.task === 'classification';
    this.classNames = isClass ? values! : null;
    this.labelUnit = isClass ? null : standardDeviation(moments);
    const places = new Map(values?.map((value, i) => [value, i]));
    const standard = standardOf(moments);
    const mark = marks[this.target]!;
    this.label = (field) => {
      if (!isClass) return standard(numberOf(field, mark)!);
      const place = places.get(kind === 'number' ? nameOfNumber(field, mark) : field.trim());
      if (place === undefined) throw new DataError(`Column "${column.name}" has no class ${JSON.stringify(field)}.`);
      return place;
    };
  }
}

/** Rows of a table as samples. */
export class TableDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [1, 1, number];
  readonly classes: number;
  readonly classNames?: readonly string[];
  readonly labelUnit?: number;
  readonly facts: TableFacts;
  readonly digest: string;
  readonly #csv: CsvFile;
  readonly #rows: Uint32Array;
  readonly #encoding: Encoding;

  constructor(csv: CsvFile, rows: Uint32Array, encoding: Encoding, digest: string) {
    const { inputs, classNames, labelUnit } = encoding;
    this.size = rows.length;
    this.inputShape = [1, 1, inputs.length];
    this.classes = classNames?.length ?? 1;
    if (classNames) this.classNames = classNames;
    if (labelUnit !== null) this.labelUnit = labelUnit;
    this.facts = encoding.facts;
    this.digest = digest;
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
