/** Shows a curve as a small table, for screen readers. */
import { uiMessages } from '../locales/index.ts';

/** The largest number of rows in the table. */
const MOST = 12;

interface Props<Row> {
  /** `name` is the quantity that the curve shows, and `over` is the quantity on the x axis. */
  name: string;
  over: string;
  rows: readonly Row[];
  /** Returns the texts of a row: the position on the x axis, and the value of the curve there. */
  describe: (row: Row) => readonly [place: string, value: string];
}

export function NumbersTable<Row>({ name, over, rows, describe }: Props<Row>) {
  const { charts } = uiMessages.value;
  return (
    <div class="away">
      <table>
        <caption>{charts.someValues(name)}</caption>
        <thead>
          <tr>
            <th>{over}</th>
            <th>{name}</th>
          </tr>
        </thead>
        <tbody>
          {sample(rows)
            .map(describe)
            .map(([place, value]) => (
              <tr key={place}>
                <td>{place}</td>
                <td>{value}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}

function sample<Row>(rows: readonly Row[]): Row[] {
  if (rows.length <= MOST) return [...rows];
  return Array.from({ length: MOST }, (_, i) => rows[Math.round((i * (rows.length - 1)) / (MOST - 1))]!);
}
