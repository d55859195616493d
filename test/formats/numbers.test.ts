import { describe, expect, test } from 'vitest';
import { parseNumberWithUnit, NumberReader, isNumberWithoutUnit, parseNumberField } from '../../src/formats/numbers.ts';
import { isMissingValueMarker } from '../../src/formats/missing.ts';

describe('isNumberWithoutUnit and parseNumberField', () => {
  test.each<[field: string, point: number | null, comma: number | null]>([
    ['5', 5, 5],
    [' -5 ', -5, -5],
    ['1e3', 1000, 1000],
    ['2.5', 2.5, null],
    ['.5', 0.5, null],
    ['5.', 5, null],
    ['-2.5e-3', -0.0025, null],
    ['2,5', null, 2.5],
    [',5', null, 0.5],
    ['1234,5', null, 1234.5],
    ['0,125', null, 0.125],
    ['0.125', 0.125, null],
    // Ambiguous.
    ['1,234', 1234, 1.234],
    ['1.234', 1.234, 1234],
    ['1,234.5', 1234.5, null],
    ['1.234,5', null, 1234.5],
    ['12,345,678', 12345678, null],
    ['12.345.678', null, 12345678],
  ])('read %s with a decimal point and with a decimal comma', (field, point, comma) => {
    expect([parseNumberField(field, 'point'), parseNumberField(field, 'comma')]).toEqual([point, comma]);
    expect(isNumberWithoutUnit(field)).toBe(true);
  });

  test.each([
    '',
    ' ',
    '-',
    '.',
    ',',
    '1,2,3',
    '1.2.3',
    '12,34,56',
    '12.34.567',
    '5,',
    '12 34',
    '5%',
    '$5',
    '3+',
    '5-10',
    '--5',
    '0x10',
    'e5',
    '1o',
    'NaN',
  ])('reject "%s"', (field) => expect(isNumberWithoutUnit(field)).toBe(false));

  test('reject a number that overflows, because infinity cannot be standardized', () => {
    expect(['1e308', '-2.5', '.5e-400', '1e999'].map(isNumberWithoutUnit)).toEqual([true, true, true, false]);
  });
});

/** `@` is the place of the number. */
const AROUND = ['@', '@ kg', '@kg', '$@', '-$@', '@ €', 'USD @', '(@)', '@-', '+@', '="@"', "'@", '@,- kr', '@. kg'];
const ODD_AROUND = [
  '@ l/100 km',
  '@ m2',
  '@²',
  '@e',
  '@ x 10',
  '@ ind',
  '@ind',
  '#@',
  'Rs.@',
  '@ 000',
  '1@',
  'no. @',
  '@%',
];
const INSIDE = [
  '5',
  '-5',
  '10',
  '0',
  '1.5',
  '1,5',
  '1.234',
  '0,125',
  '1,234',
  '-12.345',
  '1 234',
  '.5',
  '5.',
  '1.2.3',
  '1e5',
];

test.each([...AROUND, ...ODD_AROUND])(
  'a reader that has read numbers in the notation %s still reads all other notations correctly',
  (around) => {
    const fields = [around, ...AROUND, ...ODD_AROUND].flatMap((one) =>
      INSIDE.map((number) => one.replace('@', number)),
    );
    const reader = new NumberReader();
    const read = fields.map((field) => [
      reader.number(field, 'point'),
      reader.number(field, 'comma'),
      reader.simple(field),
    ]);
    expect(read).toEqual(
      fields.map((field, i) => {
        const simple = read[i]![2];
        return [
          parseNumberField(field, 'point'),
          parseNumberField(field, 'comma'),
          simple && !isMissingValueMarker(field) ? parseNumberWithUnit(field) : null,
        ];
      }),
    );
  },
);
