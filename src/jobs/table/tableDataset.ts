/** Converts rows of a table to samples. The facts of the columns define the encoding. */
import type { DecimalMark } from '../../spec/preview.ts';
import type { ColumnFacts, Moments, TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { checkReadArguments, type Dataset, type Labels } from '../dataset.ts';
import { canonicalNumberText, parseNumberField } from '../../formats/numbers.ts';
import { standardDeviation } from '../../formats/moments.ts';
import { NUMBER_CELL_CODE, type PackedRows, type PackedRow } from './packedRows.ts';
import { targetColumnOf } from './tableAgreement.ts';

/** The texts of a column's codes, and the decimal mark of its numbers in this table. */
export interface ColumnTexts {
  texts: readonly (string | null)[];
  mark: DecimalMark;
}

/** Writes the inputs that a column has in a sample, from the position `at` on. */
type Input = (row: PackedRow, inputs: Float32Array, at: number) => void;

/** Returns the number of each code, or NaN. */
export function numbersOfColumnTexts({ texts, mark }: ColumnTexts): Float64Array {
  return Float64Array.from(texts, (text) => (text === null ? NaN : (parseNumberField(text, mark) ?? NaN)));
}

function inputOf(
  { kind, values, isMissing: hasGaps, moments }: ColumnFacts,
  at: number,
  column: ColumnTexts,
): { width: number; write: Input } | null {
  if (kind === 'number') {
    const standard = standardOf(moments);
    const numbers = numbersOfColumnTexts(column);
    const write: Input = ({ codes, numbers: own }, inputs, place) => {
      const number = codes[at] === NUMBER_CELL_CODE ? own[at]! : numbers[codes[at]!]!;
      inputs[place] = Number.isNaN(number) ? 0 : standard(number);
      if (hasGaps) inputs[place + 1] = Number(Number.isNaN(number));
    };
    return { width: hasGaps ? 2 : 1, write };
  }
  if (kind !== 'category') return null;
  const places = Int32Array.from(column.texts, (text) => (text === null ? -1 : values!.indexOf(text)));
  const width = values!.length;
  const write: Input = ({ codes }, inputs, place) => {
    inputs.fill(0, place, place + width);
    const found = places[codes[at]!]!;
    if (found !== -1) inputs[place + found] = 1;
  };
  return { width, write };
}

/** Returns a function that standardizes numbers to mean 0 and standard deviation 1. */
function standardOf(moments: Moments): (value: number) => number {
  const deviation = standardDeviation(moments);
  return (value) => (deviation === 0 ? 0 : (value - moments.mean) / deviation);
}

export class TableEncoding {
  readonly facts: TableFacts;
  readonly width: number;
  readonly classNames: readonly string[] | null;
  readonly labelUnit: number | null;
  readonly label: (row: PackedRow) => number;
  readonly #inputs: readonly { width: number; write: Input }[];

  /**
   * @param columns the columns of this table. Their decimal marks are needed in addition to the
   *   facts, which have no mark for a column if all tables had only integers in it.
   */
  constructor(facts: TableFacts, columns: readonly ColumnTexts[]) {
    this.facts = facts;
    const target = targetColumnOf(facts);
    const at = facts.columns.indexOf(target);
    this.#inputs = facts.columns.flatMap((one, i) => (one === target ? [] : (inputOf(one, i, columns[i]!) ?? [])));
    this.width = this.#inputs.reduce((sum, { width }) => sum + width, 0);
    const isClass = facts.task === 'classification';
    this.classNames = isClass ? target.values! : null;
    this.labelUnit = isClass ? null : standardDeviation(target.moments);
    this.label = isClass ? classReader(target, at, columns[at]!) : amountReader(target, at, columns[at]!);
  }

  write(row: PackedRow, inputs: Float32Array, from: number): void {
    let at = from;
    for (const { width, write } of this.#inputs) {
      write(row, inputs, at);
      at += width;
    }
  }
}

function amountReader({ moments }: ColumnFacts, at: number, column: ColumnTexts): (row: PackedRow) => number {
  const standard = standardOf(moments);
  const numbers = numbersOfColumnTexts(column);
  return ({ codes, numbers: own }) => standard(codes[at] === NUMBER_CELL_CODE ? own[at]! : numbers[codes[at]!]!);
}

function classReader(
  { name, kind, values }: ColumnFacts,
  at: number,
  { texts, mark }: ColumnTexts,
): (row: PackedRow) => number {
  const places = new Map(values?.map((value, i) => [value, i]));
  const classes = texts.map((text) =>
    text === null ? undefined : places.get(kind === 'number' ? canonicalNumberText(text, mark) : text),
  );
  return ({ codes }) => {
    const place = classes[codes[at]!];
    if (place === undefined) {
      throw new DataError(`Column "${name}" has no class ${JSON.stringify(texts[codes[at]!] ?? 'of this value')}.`);
    }
    return place;
  };
}

export class TableDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [1, 1, number];
  readonly classes: number;
  readonly classNames?: readonly string[];
  readonly labelUnit?: number;
  readonly facts: TableFacts;
  readonly digest: string;
  readonly #table: PackedRows;
  readonly #rows: Uint32Array;
  readonly #encoding: TableEncoding;

  constructor(table: PackedRows, rows: Uint32Array, encoding: TableEncoding, digest: string) {
    const { width, classNames, labelUnit } = encoding;
    this.size = rows.length;
    this.inputShape = [1, 1, width];
    this.classes = classNames?.length ?? 1;
    if (classNames) this.classNames = classNames;
    if (labelUnit !== null) this.labelUnit = labelUnit;
    this.facts = encoding.facts;
    this.digest = digest;
    this.#table = table;
    this.#rows = rows;
    this.#encoding = encoding;
  }

  read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): void | Promise<void> {
    checkReadArguments(this, indices, inputs, labels);
    const encoding = this.#encoding;
    const rows = Uint32Array.from(indices, (index) => this.#rows[index]!);
    return this.#table.read(rows, (i, row) => {
      encoding.write(row, inputs, i * encoding.width);
      labels[i] = encoding.label(row);
    });
  }
}
