/** Draws the signaling server: two units of a rack, each with a light. */

interface Props {
  /** The centre, pixels. */
  x: number;
  y: number;
  /** Width and height, pixels. */
  size: number;
}

export function ServerShape({ x, y, size }: Props) {
  return (
    <g class="server-shape" transform={`translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${(size / 26).toFixed(3)})`}>
      <rect x={-12} y={-11} width={24} height={22} rx={3} />
      <path d="M-12,0H12M0,-5.5H7M0,5.5H7" />
      <circle cx={-6} cy={-5.5} r={1.75} />
      <circle cx={-6} cy={5.5} r={1.75} />
    </g>
  );
}

/** The same picture in a line of text. */
export function ServerIcon() {
  return (
    <svg class="server-icon" width="1.4em" height="1.4em" viewBox="-13 -13 26 26" aria-hidden="true">
      <ServerShape x={0} y={0} size={26} />
    </svg>
  );
}
