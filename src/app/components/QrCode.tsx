/**
 * Shows a link as a QR code. It is a single path, dark on light in every theme, because cameras
 * expect that.
 */
import { encode } from 'uqr';

/**
 * Cameras need four light modules around the code. Two of them are drawn here, and the margin of
 * the page adds the others.
 */
const BORDER = 2;

export function QrCode({ text, label }: { text: string; label: string }) {
  const { data, size } = encode(text, { border: BORDER, ecc: 'M' });
  let path = '';
  data.forEach((row, y) =>
    row.forEach((dark, x) => {
      if (dark) path += `M${x},${y}h1v1h-1z`;
    }),
  );
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} class="qr-paper" />
      <path d={path} class="qr-ink" />
    </svg>
  );
}
