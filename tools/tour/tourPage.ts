/** Writes the Markdown page with the tour's screenshots. */
import { SIZES, type Stop } from './visit.ts';

/**
 * Widths of the screenshots on the Markdown page, in pixels. A wide screenshot and a phone's fit
 * side by side.
 */
const SHOWN = { wide: 600, phone: 200 } as const;

export function tourPage(stops: readonly Stop[]): string {
  return `# A tour

Every page of a run in which four tabs train on drawn digits: in light and dark colours, ${SIZES.wide.width} and ${SIZES.phone.width} pixels wide.
\`npm run tour\` takes these pictures of a real run in real tabs.
${stops.map(sectionOf).join('')}`;
}

function sectionOf({ name, title, caption }: Stop): string {
  const rows = (['light', 'dark'] as const).map((theme) =>
    (['wide', 'phone'] as const)
      .map(
        (size) =>
          `<img src="tour/${name}-${theme}-${size}.webp" width="${SHOWN[size]}" alt="${title}, ${theme}, ${size}">`,
      )
      .join(' '),
  );
  return `\n## ${title}\n\n${caption}\n\n${rows.join('\n\n')}\n`;
}
