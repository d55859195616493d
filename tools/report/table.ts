/** Tables for terminals and Markdown. */

/**
 * Formats a table. The first column is aligned to the left. The other columns have numbers and are
 * aligned to the right.
 */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string => {
    const cells = row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)));
    return `| ${cells.join(' | ')} |`;
  };
  const rule = widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

/**
 * Replaces the content between the markers `<!-- name -->` and `<!-- /name -->` in `text`.
 *
 * @throws Error if a marker is missing.
 */
export function replaceSection(text: string, name: string, content: string): string {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const start = text.indexOf(open);
  const end = text.indexOf(close, start);
  if (start < 0 || end < 0)
    throw new Error(`The markers of a section are missing: put ${open} and ${close} around the section.`);
  return `${text.slice(0, start + open.length)}\n${content}\n${text.slice(end)}`;
}
