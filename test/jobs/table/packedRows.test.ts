import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseNumberWithUnit, numberWithoutUnit } from '../../../src/formats/numbers.ts';
import { NUMBER_CELL_CODE, PackedRows } from '../../../src/jobs/table/packedRows.ts';
import { OpenedTable } from '../../../src/jobs/table/table.ts';

const number = fc.oneof(
  fc.integer({ min: -200, max: 200 }),
  fc.integer(),
  fc.integer({ min: -99_999, max: 99_999 }).map((n) => n / 100),
  fc.float({ noNaN: true }),
  fc.double({ noNaN: true }),
  fc.constant(-0),
);

const excludes = (): boolean => false;

test('packed rows have the same numbers and codes as before packing, in memory and beyond the budget', async () => {
  const column = fc.oneof(...[number, fc.constantFrom(1, 2.5)].map((one) => fc.array(one, { minLength: 1 })));
  await fc.assert(
    fc.asyncProperty(fc.array(column, { minLength: 1, maxLength: 3 }), fc.boolean(), async (columns, isKept) => {
      const rows = 5000;
      const packed = new PackedRows('a.csv', columns.length, isKept ? undefined : 30_000);
      const cell = (i: number, row: number): [code: number, number: number] => {
        const code = row % 97 === i ? 2 + (row % 300) : NUMBER_CELL_CODE;
        return [code, code === NUMBER_CELL_CODE ? columns[i]![row % columns[i]!.length]! : 0];
      };
      for (let row = 0; row < rows; row++) {
        for (const [i, { codes, point, comma }] of packed.cells.entries()) {
          [codes[packed.next], point[packed.next]] = cell(i, row);
          comma[packed.next] = point[packed.next]!;
        }
        packed.endRow(excludes);
      }
      packed.end(
        excludes,
        columns.map(() => 'comma'),
      );
      const asked = [4999, 0, 17, 4096, 4095, 17];
      const all = Uint32Array.from({ length: rows }, (_, row) => row);
      const wanted = [...asked, ...all].map((row) => columns.map((_, i) => cell(i, row)));
      const found: [number, number][][] = [];
      const keep = ({ codes, numbers }: { codes: Uint16Array; numbers: Float64Array }): void => {
        found.push(Array.from(codes, (code, i) => [code, code === NUMBER_CELL_CODE ? numbers[i]! : 0]));
      };
      await packed.read(asked, (_, row) => keep(row));
      await packed.scan(all, keep);
      expect(found).toEqual(wanted);
    }),
    { numRuns: 6 },
  );
});

test('numbers of a long column are those of their texts, in any notation', async () => {
  const digits = fc.stringMatching(/^[1-9]?\d{1,17}$/);
  const field = fc.oneof(
    number.map(String),
    fc.tuple(fc.constantFrom('', '-'), digits, fc.constantFrom('', '.'), digits).map((parts) => parts.join('')),
    fc
      .tuple(digits, fc.constantFrom('.', ''), digits, fc.constantFrom('e', 'E'), fc.integer({ min: -99, max: 20 }))
      .map((parts) => parts.join('')),
    fc.constantFrom(' 5', '+7', '.5', '0.125', '1e5', '999', '-9', '0012', '3.', '1,234.5'),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(field, { minLength: 1, maxLength: 30 }), async (fields) => {
      const ok = fields.filter((one) => {
        const amount = parseNumberWithUnit(one.trim());
        return amount !== null && Math.abs(numberWithoutUnit(amount, 'point') ?? Infinity) < 1e120;
      });
      // The first rows have so many different values that the others are read as numbers.
      const before = Array.from({ length: 150 }, (_, i) => `${i}.25`);
      const text = [...before, ...ok].map((one) => `"${one}",1.5`).join('\n');
      const table = await OpenedTable.open(new File([`x,y\n${text}`], 'a.csv'), {
        target: 'x',
        task: 'regression',
        loss: null,
        metrics: null,
        seed: 1,
      });
      const { moments } = table.facts().columns[0]!;
      const { train } = await table.load();
      const labels = new Float32Array(train.size);
      await train.read(
        Uint32Array.from({ length: train.size }, (_, i) => i),
        new Float32Array(train.size),
        labels,
      );
      const deviation = Math.sqrt(moments.squares / moments.count);
      const values = [...before, ...ok].map((one) => numberWithoutUnit(parseNumberWithUnit(one.trim())!, 'point')!);
      const known = new Set(values.map((value) => Math.fround((value - moments.mean) / deviation)));
      expect(train.size).toBe(values.length - Math.floor(values.length / 5));
      expect([...labels].filter((label) => !known.has(label))).toEqual([]);
    }),
    { numRuns: 60 },
  );
});
