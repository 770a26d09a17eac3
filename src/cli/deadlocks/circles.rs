//! The circles of a graph: its strongly connected components, by Tarjan's algorithm.

/// Each set of nodes of which every one leads to every other one, in the order in which they were found. A node alone
/// is one if it leads to itself.
pub(super) fn circles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search { edges, orders: vec![None; edges.len()], open: Vec::new(), found: Vec::new(), next: 0 };
    for node in 0..edges.len() {
        if search.orders[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

/// The place of a node in the order of the search.
#[derive(Clone, Copy, Debug)]
struct Order {
    own: usize,
    /// The lowest open one that it leads to.
    low: usize,
    is_open: bool,
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    orders: Vec<Option<Order>>,
    /// The nodes whose component is not complete yet.
    open: Vec<usize>,
    found: Vec<Vec<usize>>,
    next: usize,
}

impl Search<'_> {
    /// Visits all that the node leads to. Without recursion: a queue of ten thousand is that deep.
    fn visit(&mut self, root: usize) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if let Some(&target) = self.edges[node].get(*edge) {
                *edge += 1;
                match self.orders[target] {
                    None => {
                        self.enter(target);
                        path.push((target, 0));
                    }
                    Some(order) if order.is_open => self.lower(node, order.own),
                    Some(_) => {}
                }
                continue;
            }
            path.pop();
            self.leave(node, path.last().map(|(parent, _)| *parent));
        }
    }

    fn enter(&mut self, node: usize) {
        self.orders[node] = Some(Order { own: self.next, low: self.next, is_open: true });
        self.open.push(node);
        self.next += 1;
    }

    fn lower(&mut self, node: usize, to: usize) {
        if let Some(order) = &mut self.orders[node] {
            order.low = order.low.min(to);
        }
    }

    fn leave(&mut self, node: usize, parent: Option<usize>) {
        let Some(Order { own, low, .. }) = self.orders[node] else { return };
        if let Some(parent) = parent {
            self.lower(parent, low);
        }
        if low < own {
            return;
        }
        let from = self.open.iter().rposition(|open| *open == node).unwrap_or(0);
        let component = self.open.split_off(from);
        for member in &component {
            if let Some(order) = &mut self.orders[*member] {
                order.is_open = false;
            }
        }
        if component.len() > 1 || self.edges[node].contains(&node) {
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(edges: &[&[usize]]) -> Vec<Vec<usize>> {
        let edges: Vec<_> = edges.iter().map(|targets| targets.to_vec()).collect();
        let mut found = circles(&edges);
        found.iter_mut().for_each(|circle| circle.sort_unstable());
        found.sort();
        found
    }

    #[test]
    fn only_nodes_that_lead_to_themselves_are_in_a_circle() {
        assert_eq!(sorted(&[&[1], &[2], &[]]), Vec::<Vec<usize>>::new());
        assert_eq!(sorted(&[&[1], &[2], &[0], &[0]]), [[0, 1, 2]], "one leads into it");
        assert_eq!(sorted(&[&[0], &[0]]), [[0]], "alone");
        assert_eq!(sorted(&[&[1], &[0, 2], &[3], &[2]]), [[0, 1], [2, 3]], "from one to the other");
        assert_eq!(sorted(&[&[1, 2], &[3], &[3], &[0]]), [[0, 1, 2, 3]], "by two ways");
    }

    #[test]
    fn a_long_way_needs_no_deep_stack() {
        let mut edges: Vec<_> = (1..=100_000).map(|next| vec![next]).collect();
        edges.push(vec![50_000]);
        let found = circles(&edges);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].len(), found[0][0]), (50_001, 50_000), "in the order of the way");
    }

    #[test]
    fn circles_are_those_of_the_definition() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let nodes = random.usize(1..8);
            let edges: Vec<Vec<_>> =
                (0..nodes).map(|_| (0..nodes).filter(|_| random.usize(0..nodes + 1) < 2).collect()).collect();
            // Which nodes each one reaches, by at least one edge.
            let mut reach: Vec<Vec<bool>> =
                edges.iter().map(|targets| (0..nodes).map(|node| targets.contains(&node)).collect()).collect();
            for by in 0..nodes {
                for from in 0..nodes {
                    for to in 0..nodes {
                        reach[from][to] |= reach[from][by] && reach[by][to];
                    }
                }
            }
            let mut expected: Vec<Vec<_>> = (0..nodes)
                .filter(|node| reach[*node][*node])
                .map(|node| (0..nodes).filter(|other| reach[node][*other] && reach[*other][node]).collect())
                .collect();
            expected.sort();
            expected.dedup();
            let targets: Vec<_> = edges.iter().map(Vec::as_slice).collect();
            assert_eq!(sorted(&targets), expected, "{edges:?}");
        }
    }
}
